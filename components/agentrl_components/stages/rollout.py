"""rollout: play the episodes of an iteration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from agentrl_components.rollout.metrics import check_lost, completed_groups, down_environments
from agentrl_components.rollout.request import CollectRequest
from agentrl_components.rollout.tasks import DrawnTask, in_place_of_others
from agentrl_components.run.context import RunContext
from agentrl_components.spec.turn_limits import turn_limits
from agentrl_components.stages.iteration import silent_groups
from agentrl_components.trajectory.record import Trajectory


def play_iteration(
    context: RunContext, number: int, max_turns: int, phase: int
) -> list[Trajectory]:
    """The episodes of iteration `number`, played by the current policy. Groups without a learning
    signal are replaced by other tasks of the same environments, up to `algorithm.refillRounds`
    times. Raises `RunError` if too many episodes stay lost after their replays (`Collector`), or no
    environment is left.

    An environment that loses all its episodes while others do not is down: its tasks are shared out
    among the others, in this iteration and those that follow, until it answers again."""
    spec = context.spec
    rounds = spec.algorithm.refill_rounds
    episodes: list[Trajectory] = []
    useful: Counter[str] = Counter()
    replaced: set[str] = set()
    """Environments that lost all episodes, in whose place others were played."""
    find_environments_that_are_back(context)

    def play(attempt: int, tasks: Sequence[DrawnTask], first_group: int) -> list[Trajectory]:
        request = CollectRequest(
            tasks=tasks,
            samples=spec.rollout.group_size,
            max_turns=max_turns,
            turn_limits=turn_limits(spec, phase),
            temperature=spec.rollout.temperature,
            iteration=number,
            purpose=f"train/{attempt}",
            first_group=first_group,
        )
        return context.collector.collect(request, context.training.version)

    for attempt in range(rounds + 1):
        batch = number * (rounds + 1) + attempt
        tasks = in_place_of_others(take_tasks(context, batch), useful)
        episodes += play(attempt, tasks, attempt * spec.rollout.tasks)
        note_environments_down(context, episodes)
        if lost := down_environments(episodes) - replaced:
            replaced |= lost
            others = other_tasks(context, batch, useful, tasks)
            episodes += play(attempt, others, (rounds + 1 + attempt) * spec.rollout.tasks)
        if attempt == rounds:
            break
        useful = useful_groups(context, episodes)
        if useful.total() >= spec.rollout.tasks:
            break
    check_lost(episodes, spec.rollout.max_lost_share, of=f" of iteration {number}")
    return episodes


def take_tasks(context: RunContext, batch: int) -> Sequence[DrawnTask]:
    """The training tasks of `batch`. Says which environments were found to be down meanwhile."""
    tasks = context.tasks.take(batch)
    note_environments_without_tasks(context)
    return tasks


def other_tasks(
    context: RunContext, batch: int, useful: Counter[str], played: Sequence[DrawnTask]
) -> list[DrawnTask]:
    """The training tasks of `batch` without those that were `played`: tasks of other environments,
    after one of them was found to be down. `useful` is as `useful_groups` returns it."""
    known = {(one.environment, one.task.id) for one in played}
    return [
        one
        for one in in_place_of_others(take_tasks(context, batch), useful)
        if (one.environment, one.task.id) not in known
    ]


def useful_groups(context: RunContext, episodes: Sequence[Trajectory]) -> Counter[str]:
    """The number of groups with a learning signal, by environment."""
    groups = completed_groups(episodes) - silent_groups(context, episodes)
    return Counter({e.group: e.environment for e in episodes if e.group in groups}.values())


def note_environments_down(context: RunContext, episodes: Sequence[Trajectory]) -> None:
    """Find the environments that are down, and say so, once for each."""
    note_environments_without_tasks(context)
    found = down_environments(episodes) - context.workers.down.keys()
    for name in sorted(found):
        lost = [e for e in episodes if e.environment == name]
        context.view.note(
            f"environment {name} is down: {len(lost)} episodes are lost, and its tasks are shared "
            f"out until it answers again; the last one: {lost[-1].note}"
        )
        context.workers.down[name] = lost[-1].note
    if found:
        context.tasks.discard()


def note_environments_without_tasks(context: RunContext) -> None:
    """Say which environments were found to be down when tasks were drawn, on whatever thread."""
    found = context.workers.dealt_no_tasks()
    for name, error in found:
        context.view.note(
            f"environment {name} is down: it deals no tasks, and its tasks are shared out until it "
            f"answers again: {error}"
        )
    if found:
        context.tasks.discard()


def find_environments_that_are_back(context: RunContext) -> None:
    """Take environments that answer again back into the run, and say so."""
    back = context.workers.probe()
    note_environments_without_tasks(context)  # of those that are back, too: they went down first
    for name in back:
        context.view.note(f"environment {name} answers again")
    if back:
        context.tasks.discard()
