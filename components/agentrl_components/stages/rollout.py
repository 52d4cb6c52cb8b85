"""rollout: play the episodes of an iteration."""

from __future__ import annotations

from agentrl_components.rollout.metrics import check_lost, completed_groups
from agentrl_components.rollout.request import CollectRequest
from agentrl_components.run.context import RunContext
from agentrl_components.stages.iteration import silent_groups
from agentrl_components.trajectory.record import Trajectory


def play_iteration(context: RunContext, number: int, max_turns: int) -> list[Trajectory]:
    """The episodes of iteration `number`, played by the current policy. Groups without a learning
    signal are replaced by other tasks, up to `algorithm.refillRounds` times. Raises `RunError` if
    too many episodes stay lost after their replays (`Collector`)."""
    spec = context.spec
    rounds = spec.algorithm.refill_rounds
    episodes: list[Trajectory] = []
    wanted = spec.rollout.tasks
    for attempt in range(rounds + 1):
        request = CollectRequest(
            tasks=context.tasks.take(number * (rounds + 1) + attempt)[:wanted],
            samples=spec.rollout.group_size,
            max_turns=max_turns,
            temperature=spec.rollout.temperature,
            iteration=number,
            purpose=f"train/{attempt}",
            first_group=attempt * spec.rollout.tasks,
        )
        episodes += context.collector.collect(request, context.training.version)
        if attempt == rounds:
            break
        useful = completed_groups(episodes) - silent_groups(context, episodes)
        wanted = spec.rollout.tasks - len(useful)
        if wanted <= 0:
            break
    check_lost(episodes, spec.rollout.max_lost_share, of=f" of iteration {number}")
    return episodes
