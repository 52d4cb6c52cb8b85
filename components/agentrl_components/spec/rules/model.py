"""Rules about the model and its context length."""

from __future__ import annotations

from collections.abc import Iterator

from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.rule import Mistake, Rule, rule


@rule(
    "rollout.maxTokensPerTurn",
    "model.context",
    cel="self.rollout.maxTokensPerTurn < self.model.context",
)
def replies_fit_context(spec: RunSpec) -> Iterator[Mistake]:
    """rollout.maxTokensPerTurn must be less than model.context."""
    tokens, context = spec.rollout.max_tokens_per_turn, spec.model.context
    if tokens >= context:
        yield Mistake(
            field="spec.rollout.maxTokensPerTurn",
            reason=f"{tokens:,} is not less than model.context, {context:,}, which also holds the "
            "prompt and the observations",
            fix="lower it, or raise spec.model.context",
        )


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
    "model.template",
    "model.thinking",
    "rollout.actions",
    cel="!self.model.thinking || (self.model.source != 'tiny'"
    " && self.model.template in ['auto', 'chat'] && self.rollout.actions == 'free')",
)
def thinking_needs_a_chat_template_and_free_replies(spec: RunSpec) -> Iterator[Mistake]:
    """model.thinking requires a model with a chat template, and rollout.actions free."""
    model = spec.model
    if not model.thinking:
        return
    if model.source == "tiny" or model.template not in ("auto", "chat"):
        yield Mistake(
            field="spec.model.thinking",
            reason="is true, but without a chat template a model is not asked to think",
            fix="set it to false, or use a model with a chat template and leave model.template out",
        )
    elif spec.rollout.actions != "free":
        yield Mistake(
            field="spec.rollout.actions",
            reason=f"is {spec.rollout.actions}, by which a reply is an action without thoughts",
            fix="set it to free, or model.thinking to false",
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
    """model.lora.dropout above 0 requires importanceSampling: without it update/mismatch_kl is
    measured with dropout."""
    lora = spec.model.lora
    if lora and lora.dropout and spec.algorithm.importance_sampling.mode == "off":
        yield Mistake(
            field="spec.model.lora.dropout",
            reason=f"{lora.dropout} would count as a difference between trainer and sampler in "
            "update/mismatch_kl, since algorithm.importanceSampling, which measures it without "
            "dropout, is off",
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
    replies_fit_context,
    tiny_heads_divide_hidden,
    tiny_has_no_chat_template,
    thinking_needs_a_chat_template_and_free_replies,
    revision_needs_hub,
    lora_dropout_needs_importance_sampling,
    lora_targets_are_unique,
)
