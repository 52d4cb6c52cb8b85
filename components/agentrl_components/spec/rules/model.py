"""Rules about the model and about what must fit into it."""

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
            f"tokens of replies alone, which do not fit model.context, {spec.model.context}",
            fix=f"raise spec.model.context above {tokens}, by what observations need, or lower "
            "maxTurns or spec.rollout.maxTokensPerTurn",
        )


@rule(
    "horizon.phases.*.maxTurns",
    "rollout.maxTokensPerTurn",
    "model.context",
    cel="self.horizon.phases.map(p, p.maxTurns).max() * self.rollout.maxTokensPerTurn"
    " < self.model.context",
)
def phases_fit_the_context(spec: RunSpec) -> Iterator[Mistake]:
    """An episode of the longest phase must fit model.context: maxTurns * rollout.maxTokensPerTurn,
    the replies alone, must be below it."""
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
def evaluation_fits_the_context(spec: RunSpec) -> Iterator[Mistake]:
    """An episode of the evaluation must fit model.context: maxTurns * rollout.maxTokensPerTurn must
    be below it."""
    if spec.evaluation.max_turns is not None:
        yield from _too_long(spec, "spec.evaluation.maxTurns", spec.evaluation.max_turns)


@rule(
    "model.source",
    "model.tiny",
    cel="self.model.source != 'tiny' || (self.model.tiny.hidden % self.model.tiny.heads == 0"
    " && self.model.tiny.heads % self.model.tiny.kvHeads == 0"
    " && (self.model.tiny.hidden / self.model.tiny.heads) % 2 == 0)",
)
def heads_divide_the_width(spec: RunSpec) -> Iterator[Mistake]:
    """A tiny model's heads divide hidden into even parts, and its kvHeads divide heads."""
    tiny = spec.model.tiny
    if spec.model.source != "tiny":
        return
    if tiny.hidden % tiny.heads or (tiny.hidden // tiny.heads) % 2:
        step = 2 * tiny.heads
        near = max(step, round(tiny.hidden / step) * step)
        yield Mistake(
            field="spec.model.tiny.heads",
            reason=f"{tiny.heads} heads do not cut hidden, {tiny.hidden}, into parts of even "
            "size, which rotary positions need",
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
def a_tiny_model_has_no_chat_template(spec: RunSpec) -> Iterator[Mistake]:
    """A tiny model has no chat template: template is auto, plain or react."""
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
def only_a_hub_has_revisions(spec: RunSpec) -> Iterator[Mistake]:
    """model.revision belongs to an hf:// source."""
    if spec.model.revision is not None and not spec.model.source.startswith("hf://"):
        yield Mistake(
            field="spec.model.revision",
            reason=f"{spec.model.source} has no revisions; only hf:// sources have",
            fix="leave it out, or name the version in source",
        )


@rule(
    "model.lora",
    "algorithm.importanceSampling.mode",
    cel="!has(self.model.lora) || self.model.lora.dropout == 0.0"
    " || self.algorithm.importanceSampling.mode != 'off'",
)
def dropout_needs_correction(spec: RunSpec) -> Iterator[Mistake]:
    """With LoRA dropout the sampler and the trainer differ, so importanceSampling may not be
    off."""
    lora = spec.model.lora
    if lora and lora.dropout and spec.algorithm.importance_sampling.mode == "off":
        yield Mistake(
            field="spec.model.lora.dropout",
            reason=f"{lora.dropout} makes the trainer differ from the sampler, and "
            "algorithm.importanceSampling, which corrects for it, is off",
            fix="set dropout to 0, or importanceSampling.mode to truncate",
        )


@rule("model.lora")
def adapters_are_named_once(spec: RunSpec) -> Iterator[Mistake]:
    """model.lora.targets names each layer once."""
    targets = spec.model.lora.targets if spec.model.lora else ()
    for index, name in enumerate(targets):
        if name in targets[:index]:
            yield Mistake(
                field=f"spec.model.lora.targets[{index}]",
                reason=f"{name} is named twice",
                fix="leave it out here",
            )


RULES: tuple[Rule, ...] = (
    phases_fit_the_context,
    evaluation_fits_the_context,
    heads_divide_the_width,
    a_tiny_model_has_no_chat_template,
    only_a_hub_has_revisions,
    dropout_needs_correction,
    adapters_are_named_once,
)
