"""Rules about the model and its context length."""

from __future__ import annotations

from collections.abc import Iterator

from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.rule import Mistake, Rule, rule


def _too_long(spec: RunSpec, field: str, max_turns: int) -> Iterator[Mistake]:
    tokens = max_turns * spec.rollout.max_tokens_per_turn
    if tokens >= spec.model.context:
        yield Mistake(
            field=field,
            reason=f"{max_turns} turns of {spec.rollout.max_tokens_per_turn} tokens are {tokens} "
            f"tokens without observations, which exceeds model.context, {spec.model.context}",
            fix=f"set spec.model.context above {tokens}, with room for observations, or lower "
            "maxTurns or spec.rollout.maxTokensPerTurn",
        )


@rule(
    "horizon.phases.*.maxTurns",
    "rollout.maxTokensPerTurn",
    "model.context",
    cel="self.horizon.phases.map(p, p.maxTurns).max() * self.rollout.maxTokensPerTurn"
    " < self.model.context",
)
def phases_fit_context(spec: RunSpec) -> Iterator[Mistake]:
    """maxTurns * rollout.maxTokensPerTurn of the longest phase must be less than model.context."""
    longest = max(range(len(spec.horizon.phases)), key=lambda i: spec.horizon.phases[i].max_turns)
    yield from _too_long(
        spec, f"spec.horizon.phases[{longest}].maxTurns", spec.horizon.phases[longest].max_turns
    )


@rule(
    "evaluation.maxTurns",
    "rollout.maxTokensPerTurn",
    "model.context",
    cel="!has(self.evaluation.maxTurns) ||"
    " self.evaluation.maxTurns * self.rollout.maxTokensPerTurn < self.model.context",
)
def evaluation_fits_context(spec: RunSpec) -> Iterator[Mistake]:
    """evaluation.maxTurns * rollout.maxTokensPerTurn must be less than model.context."""
    if spec.evaluation.max_turns is not None:
        yield from _too_long(spec, "spec.evaluation.maxTurns", spec.evaluation.max_turns)


@rule(
    "model.source",
    "model.tiny",
    cel="self.model.source != 'tiny' || (self.model.tiny.hidden % self.model.tiny.heads == 0"
    " && self.model.tiny.heads % self.model.tiny.kvHeads == 0"
    " && (self.model.tiny.hidden / self.model.tiny.heads) % 2 == 0)",
)
def tiny_heads_divide_hidden(spec: RunSpec) -> Iterator[Mistake]:
    """In a tiny model, hidden / heads must be an even integer and kvHeads must divide heads."""
    tiny = spec.model.tiny
    if spec.model.source != "tiny":
        return
    if tiny.hidden % tiny.heads or (tiny.hidden // tiny.heads) % 2:
        step = 2 * tiny.heads
        near = max(step, round(tiny.hidden / step) * step)
        yield Mistake(
            field="spec.model.tiny.heads",
            reason=f"hidden / heads, {tiny.hidden} / {tiny.heads}, is not an even integer, which "
            "rotary position embeddings require",
            fix=f"set hidden to a multiple of {step}, such as {near}, or change heads",
        )
    if tiny.heads % tiny.kv_heads:
        divisors = [n for n in range(1, tiny.heads + 1) if tiny.heads % n == 0]
        yield Mistake(
            field="spec.model.tiny.kvHeads",
            reason=f"{tiny.kv_heads} does not divide heads, {tiny.heads}",
            fix=f"set it to one of {', '.join(map(str, divisors))}",
        )


@rule(
    "model.source",
    "model.template",
    cel="self.model.source != 'tiny' || self.model.template != 'chat'",
)
def tiny_has_no_chat_template(spec: RunSpec) -> Iterator[Mistake]:
    """model.template may not be chat for a tiny model, which has no chat template."""
    if spec.model.source == "tiny" and spec.model.template == "chat":
        yield Mistake(
            field="spec.model.template",
            reason="the tokenizer of a tiny model has no chat template",
            fix="leave it out, or set plain or react",
        )


@rule(
    "model.source",
    "model.revision",
    cel="!has(self.model.revision) || self.model.source.startsWith('hf://')",
)
def revision_needs_hub(spec: RunSpec) -> Iterator[Mistake]:
    """model.revision requires an hf:// source."""
    if spec.model.revision is not None and not spec.model.source.startswith("hf://"):
        yield Mistake(
            field="spec.model.revision",
            reason=f"{spec.model.source} has no revisions; only hf:// sources have",
            fix="leave it out, or write the version into source",
        )


@rule(
    "model.lora",
    "algorithm.importanceSampling.mode",
    cel="!has(self.model.lora) || self.model.lora.dropout == 0.0"
    " || self.algorithm.importanceSampling.mode != 'off'",
)
def lora_dropout_needs_importance_sampling(spec: RunSpec) -> Iterator[Mistake]:
    """model.lora.dropout above 0 requires importanceSampling, since sampler and trainer differ."""
    lora = spec.model.lora
    if lora and lora.dropout and spec.algorithm.importance_sampling.mode == "off":
        yield Mistake(
            field="spec.model.lora.dropout",
            reason=f"{lora.dropout} makes the trainer differ from the sampler, and "
            "algorithm.importanceSampling, which corrects for it, is off",
            fix="set dropout to 0, or importanceSampling.mode to truncate",
        )


@rule(
    "model.lora",
    cel="!has(self.model.lora) || self.model.lora.targets.all(t,"
    " self.model.lora.targets.exists_one(same, same == t))",
)
def lora_targets_are_unique(spec: RunSpec) -> Iterator[Mistake]:
    """Items of model.lora.targets must be unique."""
    targets = spec.model.lora.targets if spec.model.lora else ()
    for index, name in enumerate(targets):
        if name in targets[:index]:
            yield Mistake(
                field=f"spec.model.lora.targets[{index}]",
                reason=f"{name} is a duplicate",
                fix="remove it",
            )


RULES: tuple[Rule, ...] = (
    phases_fit_context,
    evaluation_fits_context,
    tiny_heads_divide_hidden,
    tiny_has_no_chat_template,
    revision_needs_hub,
    lora_dropout_needs_importance_sampling,
    lora_targets_are_unique,
)
