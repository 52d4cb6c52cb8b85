"""rollout: play the episodes of an iteration."""

from __future__ import annotations

from collections.abc import Sequence

from agentrl_components.rollout.collector import Call
from agentrl_components.rollout.metrics import check_lost, groups, played
from agentrl_components.run.context import RunContext
from agentrl_components.trajectory.record import Trajectory


def rollout(context: RunContext, number: int, max_turns: int) -> list[Trajectory]:
    """The episodes of iteration `number`, by the policy as it is. Groups that say nothing are
    replaced by other tasks, as often as allowed; an episode that is lost was played again before
    (`Players`), and too many that stay lost end the run."""
    spec = context.spec
    rounds = spec.algorithm.refill_rounds
    episodes: list[Trajectory] = []
    wanted = spec.rollout.tasks
    for attempt in range(rounds + 1):
        call = Call(
            drawn=context.tasks.take(number * (rounds + 1) + attempt)[:wanted],
            samples=spec.rollout.group_size,
            max_turns=max_turns,
            temperature=spec.rollout.temperature,
            iteration=number,
            purpose=f"train/{attempt}",
            first_group=attempt * spec.rollout.tasks,
        )
        episodes += context.players.play(call, context.version)
        if attempt == rounds:
            break
        wanted = spec.rollout.tasks - len(groups(episodes) - silent(context, episodes))
        if wanted <= 0:
            break
    check_lost(episodes, spec.rollout.max_lost_share, of=f" of iteration {number}")
    return episodes


def silent(context: RunContext, episodes: Sequence[Trajectory]) -> frozenset[int]:
    """Groups whose episodes all earned the same, where that matters."""
    return context.learner.silent_groups(played(episodes))
