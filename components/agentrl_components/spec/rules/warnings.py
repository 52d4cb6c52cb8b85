"""What is valid in a manifest and may not be what its author wants."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.environments.text import LOADED, default_terse_texts
from agentrl_components.spec.rules.rule import Mistake


def manifest_warnings(spec: RunSpec) -> Iterator[Mistake]:
    """What the author of a valid manifest should know."""
    yield from _turns_beyond_context(spec)
    yield from _evaluated_without_checkpoint(spec)
    yield from _alarms_longer_than_phases(spec)
    yield from _warmup_of_the_critic_alone(spec)
    yield from _decay_beyond_the_end(spec)
    if spec.model.source.startswith(LOADED):
        yield from default_terse_texts(spec)


def _turns_beyond_context(spec: RunSpec) -> Iterator[Mistake]:
    """Turn limits that an episode cannot reach if all of its replies are as long as they may be:
    `model.context` ends it before. Replies are often shorter, so this is no mistake."""
    phases = spec.horizon.phases
    longest = max(range(len(phases)), key=lambda index: phases[index].max_turns)
    limits = {
        f"environments[{index}]": max(one.max_turns[: len(phases)])
        for index, one in enumerate(spec.environments)
        if one.max_turns
    }
    if len(limits) < len(spec.environments):  # the others have the limits of the schedule
        limits[f"horizon.phases[{longest}]"] = phases[longest].max_turns
    if spec.evaluation.max_turns is not None:
        limits["evaluation"] = spec.evaluation.max_turns
    if spec.warm_start is not None and spec.warm_start.algorithm == "filtered-imitation":
        limits["warmStart"] = spec.warm_start.max_turns
    each, context = spec.rollout.max_tokens_per_turn, spec.model.context
    for where, turns in limits.items():
        if turns * each >= context:
            yield Mistake(
                field=f"spec.{where}.maxTurns",
                reason=f"{turns} turns of at most {each:,} tokens are {turns * each:,} tokens "
                f"without observations, and an episode ends when it fills model.context, "
                f"{context:,}",
                fix="raise spec.model.context, or lower maxTurns or spec.rollout.maxTokensPerTurn, "
                "unless replies are much shorter",
            )


def _evaluated_without_checkpoint(spec: RunSpec) -> Iterator[Mistake]:
    """Evaluations of weights that are not kept: the best checkpoint is chosen among those that were
    evaluated, so these weights cannot be chosen however good they are."""
    every, interval = spec.evaluation.every, spec.update.checkpoint_every
    if not every or every % interval == 0:
        return
    *ends, total = accumulate(phase.iterations for phase in spec.horizon.phases)
    # The last iteration of a phase has a checkpoint. Which one it is, is known only without
    # an early end.
    saved = set(ends) if spec.horizon.advance == "iterations" else set()
    evaluated = (done for done in range(every, total, every) if done % interval)
    lost = next((done for done in evaluated if done not in saved), None)
    if lost is not None:
        yield Mistake(
            field="spec.evaluation.every",
            reason=f"is {every}, and spec.update.checkpointEvery is {interval}: there is no "
            f"checkpoint of the weights that are evaluated after iteration {lost}, so they cannot "
            "be kept as the best ones",
            fix=f"set checkpointEvery to {every} or a number that divides it, or every to a "
            f"multiple of {interval}",
        )


def _alarms_longer_than_phases(spec: RunSpec) -> Iterator[Mistake]:
    """Alarms whose window exceeds every phase. They compare success within a phase, so they never
    fire. Only a warning: the run is as it would be without the alarm, and runs that have begun
    with one go on."""
    phases, alarms = spec.horizon.phases, spec.horizon.alarms
    longest = max(phase.iterations for phase in phases)
    if any(alarm.action == "hold" for alarm in alarms):
        return  # a phase that is held lasts longer than its iterations
    for index, alarm in enumerate(alarms):
        compared = {
            "turnsPinned": (alarm.turns_pinned, 2),
            "rewardDrop": (alarm.reward_drop, 1),
        }
        for name, (bound, windows) in compared.items():
            if bound is not None and windows * alarm.window > longest:
                lengths = f"{windows} windows" if windows > 1 else "a window"
                yield Mistake(
                    field=f"spec.horizon.alarms[{index}].{name}",
                    reason=f"needs {lengths} of {alarm.window} iterations in one phase, and the "
                    f"longest one has {longest}, so it never becomes active",
                    fix=f"set the window of the alarm to {max(1, longest // windows)} or less",
                )


def _warmup_of_the_critic_alone(spec: RunSpec) -> Iterator[Mistake]:
    """A learning rate that has risen before the policy takes its first step. Both warm-ups count
    from the start of the run, so that runs that have begun go on with the rates they began with."""
    alone, rising = spec.algorithm.critic.warmup_iterations, spec.update.warmup_iterations
    if spec.algorithm.traits.needs_critic and 0 < rising <= alone:
        yield Mistake(
            field="spec.update.warmupIterations",
            reason=f"is {rising}, and only the critic is trained in the first {alone} iterations, "
            "algorithm.critic.warmupIterations: the policy takes its first step with the full "
            "learning rate",
            fix=f"raise it above {alone}, by the iterations in which the policy's rate shall rise",
        )


def _decay_beyond_the_end(spec: RunSpec) -> Iterator[Mistake]:
    """A learning rate that decays until the last iteration there can be, in a run whose phases may
    end earlier."""
    schedule, advance = spec.update.schedule, spec.horizon.advance
    if schedule != "constant" and advance != "iterations":
        yield Mistake(
            field="spec.update.schedule",
            reason=f"is {schedule}, and phases end early by spec.horizon.advance, {advance}: the "
            "learning rate decays over all iterations of the phases, and is higher at the end of a "
            "run that has fewer",
            fix="set the schedule to constant, or advance to iterations, unless that is wanted",
        )
