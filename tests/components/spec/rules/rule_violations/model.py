"""Violations of the rules about the model and its context window."""

from rule_violations.manifest import Violation

CORRIDOR = "environments=[{name: walk, builtin: corridor}]"
"""An environment for any model."""

VIOLATIONS: list[Violation] = [
    (
        "replies_fit_context",
        ("model.context=512", "rollout.maxTokensPerTurn=512"),
        ["spec.rollout.maxTokensPerTurn"],
    ),
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
    (
        "thinking_needs_a_chat_template_and_free_replies",
        ("model.thinking=true",),
        ["spec.model.thinking"],
    ),
    (
        "thinking_needs_a_chat_template_and_free_replies",
        ("model={source: 'hf://org/qwen3', thinking: true, template: react}", CORRIDOR),
        ["spec.model.thinking"],
    ),
    (
        "thinking_needs_a_chat_template_and_free_replies",
        (
            "model={source: 'hf://org/qwen3', thinking: true}",
            "rollout.actions=admissible",
            CORRIDOR,
        ),
        ["spec.rollout.actions"],
    ),
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
