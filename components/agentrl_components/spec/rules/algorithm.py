"""Rules about the algorithm, its sampler and its optimizer."""

from __future__ import annotations

from collections.abc import Iterator

from agentrl_components.spec.fields.algorithm import COMPARES_A_GROUP, Critic, Gae, Kl
from agentrl_components.spec.fields.base import Part
from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.fields.update import Update
from agentrl_components.spec.rules.rule import Mistake, Rule, changed, rule

_COMPARING = "[" + ", ".join(f"'{name}'" for name in sorted(COMPARES_A_GROUP)) + "]"


def _unused(part: Part, default: Part, where: str, why: str) -> Iterator[Mistake]:
    fields = type(part).model_fields
    for name in changed(part, default, tuple(fields)):
        yield Mistake(
            field=f"spec.{where}.{fields[name].alias}",
            reason=f"has no effect: {why}",
            fix="leave it out",
        )


@rule(
    "algorithm.name",
    "rollout.groupSize",
    cel=f"!(self.algorithm.name in {_COMPARING}) || self.rollout.groupSize >= 2",
)
def a_comparison_needs_two(spec: RunSpec) -> Iterator[Mistake]:
    """rollout.groupSize is at least 2 where the algorithm compares the episodes of a task."""
    if spec.algorithm.name in COMPARES_A_GROUP and spec.rollout.group_size < 2:
        yield Mistake(
            field="spec.rollout.groupSize",
            reason=f"{spec.rollout.group_size} is too small for {spec.algorithm.name}, which "
            "compares the episodes of a task",
            fix="set it to 2 or more",
        )


@rule(
    "algorithm.name",
    "algorithm.gae",
    "algorithm.critic",
    cel="self.algorithm.name == 'ppo' || (self.algorithm.gae.level == 'token'"
    f" && self.algorithm.gae.gamma == {Gae().gamma}"
    f" && self.algorithm.gae.lam == {Gae().lam}"
    f" && self.algorithm.critic.learningRate == {Critic().learning_rate}"
    f" && self.algorithm.critic.valueClip == {Critic().value_clip}"
    f" && self.algorithm.critic.warmupIterations == {Critic().warmup_iterations})",
)
def only_ppo_has_a_critic(spec: RunSpec) -> Iterator[Mistake]:
    """algorithm.gae and algorithm.critic belong to ppo."""
    if spec.algorithm.name != "ppo":
        why = f"{spec.algorithm.name} has no critic; only ppo has"
        yield from _unused(spec.algorithm.gae, Gae(), "algorithm.gae", why)
        yield from _unused(spec.algorithm.critic, Critic(), "algorithm.critic", why)


@rule(
    "algorithm.name",
    "algorithm.gigpoWeight",
    cel="self.algorithm.name == 'gigpo' || self.algorithm.gigpoWeight == 1.0",
)
def only_gigpo_weighs_steps(spec: RunSpec) -> Iterator[Mistake]:
    """algorithm.gigpoWeight belongs to gigpo."""
    if spec.algorithm.name != "gigpo" and spec.algorithm.gigpo_weight != 1.0:
        yield Mistake(
            field="spec.algorithm.gigpoWeight",
            reason=f"has no effect: {spec.algorithm.name} has no step-level advantage; only "
            "gigpo has",
            fix="leave it out, or set algorithm.name to gigpo",
        )


@rule(
    "algorithm.name",
    "algorithm.dropZeroVariance",
    "algorithm.refillRounds",
    cel="self.algorithm.refillRounds == 0 || (self.algorithm.dropZeroVariance"
    f" && self.algorithm.name in {_COMPARING})",
)
def refilling_replaces_what_was_dropped(spec: RunSpec) -> Iterator[Mistake]:
    """algorithm.refillRounds needs dropZeroVariance and an algorithm that compares a group."""
    algorithm = spec.algorithm
    if not algorithm.refill_rounds:
        return
    if algorithm.name not in COMPARES_A_GROUP:
        reason = f"{algorithm.name} drops no groups, so there is nothing to replace"
        fix = "leave it out"
    elif not algorithm.drop_zero_variance:
        reason = "no group is dropped while dropZeroVariance is false, so none is replaced"
        fix = "set dropZeroVariance to true, or leave refillRounds out"
    else:
        return
    yield Mistake(field="spec.algorithm.refillRounds", reason=reason, fix=fix)


@rule(
    "algorithm.kl",
    cel="self.algorithm.kl.coefficient > 0.0 || self.algorithm.kl.estimator == 'k3'",
)
def an_estimator_needs_a_coefficient(spec: RunSpec) -> Iterator[Mistake]:
    """algorithm.kl.estimator needs a coefficient above 0."""
    kl = spec.algorithm.kl
    if kl.coefficient == 0 and kl.estimator != Kl().estimator:
        yield Mistake(
            field="spec.algorithm.kl.estimator",
            reason="has no effect: the coefficient is 0",
            fix="set spec.algorithm.kl.coefficient above 0, or leave the estimator out",
        )


@rule(
    "rollout.actions",
    "rollout.topP",
    cel="self.rollout.actions != 'admissible' || self.rollout.topP == 1.0",
)
def a_confined_sampler_has_no_nucleus(spec: RunSpec) -> Iterator[Mistake]:
    """rollout.topP is 1 where actions are admissible: the actions already confine the sampler, and
    a nucleus would take some of them away for good."""
    if spec.rollout.actions == "admissible" and spec.rollout.top_p < 1:
        yield Mistake(
            field="spec.rollout.topP",
            reason=f"{spec.rollout.top_p} would take admissible actions away that are rare today, "
            "and an action that is never sampled is never learned",
            fix="set it to 1",
        )


@rule(
    "rollout.topP",
    "algorithm.importanceSampling.mode",
    cel="self.rollout.topP == 1.0 || self.algorithm.importanceSampling.mode != 'off'",
)
def a_nucleus_needs_correction(spec: RunSpec) -> Iterator[Mistake]:
    """With rollout.topP below 1 importanceSampling may not be off."""
    if spec.rollout.top_p < 1 and spec.algorithm.importance_sampling.mode == "off":
        yield Mistake(
            field="spec.rollout.topP",
            reason=f"{spec.rollout.top_p} makes the sampler differ from the trainer, and "
            "algorithm.importanceSampling, which corrects for it, is off",
            fix="set importanceSampling.mode to truncate, or topP to 1",
        )


@rule(
    "rollout.maxStaleness",
    "algorithm.importanceSampling.mode",
    cel="self.rollout.maxStaleness == 0 || self.algorithm.importanceSampling.mode != 'off'",
)
def a_lag_needs_correction(spec: RunSpec) -> Iterator[Mistake]:
    """With rollout.maxStaleness above 0 importanceSampling may not be off."""
    if spec.rollout.max_staleness and spec.algorithm.importance_sampling.mode == "off":
        yield Mistake(
            field="spec.rollout.maxStaleness",
            reason=f"{spec.rollout.max_staleness} trains on episodes of older weights, and "
            "algorithm.importanceSampling, which corrects for it, is off",
            fix="set importanceSampling.mode to truncate, or maxStaleness to 0",
        )


@rule(
    "update.schedule",
    "update.finalShare",
    cel=f"self.update.schedule != 'constant' || self.update.finalShare == {Update().final_share}",
)
def a_constant_step_has_no_end(spec: RunSpec) -> Iterator[Mistake]:
    """update.finalShare needs a linear or cosine schedule."""
    share = spec.update.final_share
    if spec.update.schedule == "constant" and share != Update().final_share:
        yield Mistake(
            field="spec.update.finalShare",
            reason="has no effect: the schedule is constant",
            fix="set spec.update.schedule to linear or cosine, or leave finalShare out",
        )


RULES: tuple[Rule, ...] = (
    a_comparison_needs_two,
    only_ppo_has_a_critic,
    only_gigpo_weighs_steps,
    refilling_replaces_what_was_dropped,
    an_estimator_needs_a_coefficient,
    a_confined_sampler_has_no_nucleus,
    a_nucleus_needs_correction,
    a_lag_needs_correction,
    a_constant_step_has_no_end,
)
