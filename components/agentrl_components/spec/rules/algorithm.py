"""Rules about the algorithm, sampling and the learning rate schedule."""

from __future__ import annotations

from collections.abc import Iterator

from agentrl_components.spec.algorithms import AlgorithmName, algorithms_with
from agentrl_components.spec.base import SpecModel
from agentrl_components.spec.fields.algorithm import Critic, Gae, ImportanceSampling, Kl
from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.fields.update import Update
from agentrl_components.spec.rules.rule import Mistake, Rule, differences, rule


def _is_one_of(names: tuple[AlgorithmName, ...]) -> str:
    """The CEL expression for: `algorithm.name` is one of `names`."""
    if len(names) == 1:
        return f"self.algorithm.name == '{names[0]}'"
    return "self.algorithm.name in [" + ", ".join(f"'{name}'" for name in names) + "]"


_USES_GROUP = _is_one_of(algorithms_with(lambda traits: traits.needs_group))
_KEEPS_GROUPS = _is_one_of(
    algorithms_with(lambda traits: traits.needs_group and not traits.drop_zero_variance)
)
_CRITIC_ALGORITHMS = algorithms_with(lambda traits: traits.needs_critic)
_STEP_ALGORITHMS = algorithms_with(lambda traits: traits.estimator == "gigpo")
_SCALED_ALGORITHMS = algorithms_with(lambda traits: traits.estimator in ("group-relative", "gigpo"))


def _unused(value: SpecModel, default: SpecModel, path: str, reason: str) -> Iterator[Mistake]:
    fields = type(value).model_fields
    for name in differences(value, default, tuple(fields)):
        yield Mistake(
            field=f"spec.{path}.{fields[name].alias}",
            reason=f"has no effect: {reason}",
            fix="leave it out",
        )


@rule(
    "algorithm.name",
    "rollout.groupSize",
    cel=f"!({_USES_GROUP}) || self.rollout.groupSize >= 2",
)
def group_baselines_need_groups(spec: RunSpec) -> Iterator[Mistake]:
    """rollout.groupSize must be at least 2 for algorithms whose baseline is the group."""
    if spec.algorithm.traits.needs_group and spec.rollout.group_size < 2:
        yield Mistake(
            field="spec.rollout.groupSize",
            reason=f"{spec.rollout.group_size} is too small for {spec.algorithm.name}, whose "
            "baseline is the other episodes of the task",
            fix="set it to 2 or more",
        )


@rule(
    "algorithm.name",
    "algorithm.gae",
    "algorithm.critic",
    cel=f"{_is_one_of(_CRITIC_ALGORITHMS)} || (self.algorithm.gae.level == 'token'"
    f" && self.algorithm.gae.gamma == {Gae().gamma}"
    f" && self.algorithm.gae.lam == {Gae().lam}"
    " && !has(self.algorithm.critic.learningRate)"
    f" && self.algorithm.critic.valueClip == {Critic().value_clip}"
    f" && self.algorithm.critic.warmupIterations == {Critic().warmup_iterations})",
)
def critic_settings_need_ppo(spec: RunSpec) -> Iterator[Mistake]:
    """algorithm.gae and algorithm.critic are only used by ppo."""
    if not spec.algorithm.traits.needs_critic:
        names = ", ".join(_CRITIC_ALGORITHMS)
        reason = f"{spec.algorithm.name} has no critic; only {names} has"
        yield from _unused(spec.algorithm.gae, Gae(), "algorithm.gae", reason)
        yield from _unused(spec.algorithm.critic, Critic(), "algorithm.critic", reason)


@rule(
    "algorithm.name",
    "algorithm.gigpoWeight",
    cel=f"{_is_one_of(_STEP_ALGORITHMS)} || self.algorithm.gigpoWeight == 1.0",
)
def gigpo_weight_needs_gigpo(spec: RunSpec) -> Iterator[Mistake]:
    """algorithm.gigpoWeight is only used by gigpo."""
    if spec.algorithm.name not in _STEP_ALGORITHMS and spec.algorithm.gigpo_weight != 1.0:
        yield Mistake(
            field="spec.algorithm.gigpoWeight",
            reason=f"has no effect: {spec.algorithm.name} has no step-level advantage; only "
            "gigpo has",
            fix="leave it out, or set algorithm.name to gigpo",
        )


@rule(
    "algorithm.name",
    "algorithm.scaleByStd",
    cel=f"{_is_one_of(_SCALED_ALGORITHMS)} || self.algorithm.scaleByStd",
)
def scale_by_std_needs_scaled_groups(spec: RunSpec) -> Iterator[Mistake]:
    """algorithm.scaleByStd is only used by gigpo, grpo and gspo."""
    if spec.algorithm.name not in _SCALED_ALGORITHMS and not spec.algorithm.scale_by_std:
        yield Mistake(
            field="spec.algorithm.scaleByStd",
            reason=f"has no effect: {spec.algorithm.name} does not divide by the standard "
            f"deviation of a group; only {', '.join(_SCALED_ALGORITHMS)} do",
            fix="leave it out",
        )


@rule(
    "algorithm.name",
    "algorithm.dropZeroVariance",
    cel=f"{_USES_GROUP} || !has(self.algorithm.dropZeroVariance)",
)
def dropped_groups_need_group_baselines(spec: RunSpec) -> Iterator[Mistake]:
    """algorithm.dropZeroVariance is only used by algorithms whose baseline is the group."""
    algorithm = spec.algorithm
    if not algorithm.traits.needs_group and algorithm.drop_zero_variance is not None:
        yield Mistake(
            field="spec.algorithm.dropZeroVariance",
            reason=f"has no effect: {algorithm.name} drops no groups, since its baseline is not "
            "the group",
            fix="leave it out",
        )


@rule(
    "algorithm.name",
    "algorithm.dropZeroVariance",
    "algorithm.refillRounds",
    cel=f"self.algorithm.refillRounds == 0 || ({_USES_GROUP}"
    " && (has(self.algorithm.dropZeroVariance) ? self.algorithm.dropZeroVariance"
    f" : !({_KEEPS_GROUPS})))",
)
def refill_needs_dropped_groups(spec: RunSpec) -> Iterator[Mistake]:
    """algorithm.refillRounds requires dropZeroVariance and an algorithm whose baseline is the
    group."""
    algorithm = spec.algorithm
    if not algorithm.refill_rounds:
        return
    if not algorithm.traits.needs_group:
        reason = f"{algorithm.name} drops no groups, so none is replaced"
        fix = "leave it out"
    elif not algorithm.drops_groups:
        whose = f" by default for {algorithm.name}" if algorithm.drop_zero_variance is None else ""
        reason = f"dropZeroVariance is false{whose}, so no group is dropped and none is replaced"
        fix = "set dropZeroVariance to true, or leave refillRounds out"
    else:
        return
    yield Mistake(field="spec.algorithm.refillRounds", reason=reason, fix=fix)


@rule(
    "algorithm.kl",
    cel="self.algorithm.kl.coefficient > 0.0 || self.algorithm.kl.estimator == 'k3'",
)
def kl_estimator_needs_coefficient(spec: RunSpec) -> Iterator[Mistake]:
    """algorithm.kl.estimator requires a coefficient above 0."""
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
def admissible_actions_need_full_top_p(spec: RunSpec) -> Iterator[Mistake]:
    """rollout.topP must be 1 if actions are admissible: nucleus sampling would exclude rare
    admissible actions, which could then never be learned."""
    if spec.rollout.actions == "admissible" and spec.rollout.top_p < 1:
        yield Mistake(
            field="spec.rollout.topP",
            reason=f"{spec.rollout.top_p} would exclude admissible actions that are rare now, and "
            "an action that is never sampled is never learned",
            fix="set it to 1",
        )


@rule(
    "rollout.topP",
    "algorithm.importanceSampling.mode",
    cel="self.rollout.topP == 1.0 || self.algorithm.importanceSampling.mode != 'off'",
)
def top_p_needs_importance_sampling(spec: RunSpec) -> Iterator[Mistake]:
    """rollout.topP below 1 requires importanceSampling."""
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
def staleness_needs_importance_sampling(spec: RunSpec) -> Iterator[Mistake]:
    """rollout.maxStaleness above 0 requires importanceSampling."""
    if spec.rollout.max_staleness and spec.algorithm.importance_sampling.mode == "off":
        yield Mistake(
            field="spec.rollout.maxStaleness",
            reason=f"{spec.rollout.max_staleness} trains on episodes from older weights, and "
            "algorithm.importanceSampling, which corrects for it, is off",
            fix="set importanceSampling.mode to truncate, or maxStaleness to 0",
        )


@rule(
    "algorithm.importanceSampling",
    cel="self.algorithm.importanceSampling.mode != 'off'"
    f" || self.algorithm.importanceSampling.cap == {ImportanceSampling().cap}",
)
def cap_needs_importance_sampling(spec: RunSpec) -> Iterator[Mistake]:
    """algorithm.importanceSampling.cap has no effect if mode is off."""
    correction = spec.algorithm.importance_sampling
    if correction.mode == "off" and correction.cap != ImportanceSampling().cap:
        yield Mistake(
            field="spec.algorithm.importanceSampling.cap",
            reason="has no effect: mode is off",
            fix="set mode to truncate or mask, or leave it out",
        )


@rule(
    "algorithm.importanceSampling",
    cel="self.algorithm.importanceSampling.mode != 'mask'"
    " || self.algorithm.importanceSampling.cap > 1.0",
)
def importance_mask_needs_range(spec: RunSpec) -> Iterator[Mistake]:
    """algorithm.importanceSampling.cap must be above 1 if mode is mask, which otherwise drops every
    token whose ratio is not exactly 1."""
    correction = spec.algorithm.importance_sampling
    if correction.mode == "mask" and correction.cap <= 1:
        yield Mistake(
            field="spec.algorithm.importanceSampling.cap",
            reason=f"{correction.cap:g} would mask every token whose ratio is not exactly 1",
            fix="set it above 1, such as 2, or set mode to truncate",
        )


@rule(
    "update.schedule",
    "update.finalShare",
    cel=f"self.update.schedule != 'constant' || self.update.finalShare == {Update().final_share}",
)
def final_share_needs_decay(spec: RunSpec) -> Iterator[Mistake]:
    """update.finalShare requires a linear or cosine schedule."""
    share = spec.update.final_share
    if spec.update.schedule == "constant" and share != Update().final_share:
        yield Mistake(
            field="spec.update.finalShare",
            reason="has no effect: the schedule is constant",
            fix="set spec.update.schedule to linear or cosine, or leave finalShare out",
        )


RULES: tuple[Rule, ...] = (
    group_baselines_need_groups,
    critic_settings_need_ppo,
    gigpo_weight_needs_gigpo,
    scale_by_std_needs_scaled_groups,
    dropped_groups_need_group_baselines,
    refill_needs_dropped_groups,
    kl_estimator_needs_coefficient,
    admissible_actions_need_full_top_p,
    top_p_needs_importance_sampling,
    staleness_needs_importance_sampling,
    cap_needs_importance_sampling,
    importance_mask_needs_range,
    final_share_needs_decay,
)
