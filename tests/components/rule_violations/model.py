"""Violations of the rules about the model and its context window."""

from rule_violations.manifest import Violation

VIOLATIONS: list[Violation] = [
    (
        "phases_fit_context",
        ("model.context=512", "rollout.maxTokensPerTurn=64"),
        ["spec.horizon.phases[1].maxTurns"],
    ),
    ("evaluation_fits_context", ("evaluation.maxTurns=16",), ["spec.evaluation.maxTurns"]),
    ("tiny_heads_divide_hidden", ("model.tiny={heads: 5, kvHeads: 1}",), ["spec.model.tiny.heads"]),
    (
        "tiny_heads_divide_hidden",
        ("model.tiny={heads: 4, kvHeads: 3}",),
        ["spec.model.tiny.kvHeads"],
    ),
    (
        "tiny_heads_divide_hidden",
        ("model.tiny={hidden: 27, heads: 3}",),
        ["spec.model.tiny.heads"],
    ),
    ("tiny_has_no_chat_template", ("model.template=chat",), ["spec.model.template"]),
    ("revision_needs_hub", ("model.revision=main",), ["spec.model.revision"]),
    (
        "lora_dropout_needs_importance_sampling",
        ("model.lora={dropout: 0.1}", 'algorithm.importanceSampling.mode="off"'),
        ["spec.model.lora.dropout"],
    ),
    (
        "lora_targets_are_unique",
        ("model.lora={targets: [q_proj, v_proj, q_proj]}",),
        ["spec.model.lora.targets[2]"],
    ),
]
