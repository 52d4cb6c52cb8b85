"""Evaluation on held-out tasks, with the same tasks and seeds for every policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from agentrl_components.evaluation.summary import (
    HeldoutResult,
    SuccessRate,
    heldout_result,
    success_rate,
)
from agentrl_components.rollout.metrics import check_lost, completed
from agentrl_components.rollout.request import CollectRequest
from agentrl_components.rollout.tasks import DrawnTask, shares
from agentrl_components.spec import RunSpec
from agentrl_components.spec.turn_limits import turn_limits
from agentrl_components.trajectory.record import Trajectory

RANDOM = "random"
"""Name of the evaluation of the random policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldoutEvaluation:
    """Tasks and settings of an evaluation. All policies get the same tasks and random numbers."""

    tasks: Sequence[DrawnTask]
    environments: tuple[str, ...]
    """Environments that have a share of the tasks. Those that were down when `tasks` were drawn
    have none in it."""
    samples: int
    """Episodes per task."""
    max_turns: int
    turn_limits: Mapping[str, int]
    """Turn limits of single environments, by name; not used by `turn_sweep`."""
    temperature: float
    turn_sweep: tuple[int, ...]
    """Further turn limits to evaluate at (test-time scaling, arXiv 2509.08755, section 4.4). The
    tasks are played a second time, with the largest, if it is above `max_turns` or environments
    have limits of their own."""
    max_lost_share: float
    """Largest acceptable share of lost episodes."""

    def run(
        self, name: str, play: Callable[[CollectRequest], Sequence[Trajectory]]
    ) -> tuple[HeldoutResult, Sequence[Trajectory]]:
        """Evaluate the policy that `play` samples from. Returns the result and the episodes.

        Raises `RunError` if too many episodes were lost."""
        episodes = self._episodes(name, play, self.max_turns, self.turn_limits)
        result = heldout_result(name, episodes, self.samples, self.environments)
        if not self.turn_sweep:
            return result, episodes
        longest = episodes
        if self.turn_limits or max(self.turn_sweep) > self.max_turns:
            longest = self._episodes(name, play, max(self.turn_sweep), {})
        sweep = {turns: self._within(longest, turns) for turns in self.turn_sweep}
        names = sorted({e.environment for e in completed(longest)})
        by_environment = {
            one: {
                turns: self._within([e for e in longest if e.environment == one], turns)
                for turns in self.turn_sweep
            }
            for one in (names if len(names) > 1 else ())
        }
        update = {"turn_sweep": sweep, "environment_sweep": by_environment}
        return result.model_copy(update=update), episodes

    def _within(self, episodes: Sequence[Trajectory], turns: int) -> SuccessRate:
        """The success rate with `turns` turns. An agent is not told its limit and its seeds do not
        depend on it, so the episodes are the beginnings of those with a larger limit."""
        return success_rate([replace(e, success=_solved(e, turns)) for e in completed(episodes)])

    def _episodes(
        self,
        name: str,
        play: Callable[[CollectRequest], Sequence[Trajectory]],
        max_turns: int,
        turn_limits: Mapping[str, int],
    ) -> Sequence[Trajectory]:
        episodes = play(
            CollectRequest(
                tasks=self.tasks,
                samples=self.samples,
                max_turns=max_turns,
                turn_limits=turn_limits,
                temperature=self.temperature,
                iteration=-1,
                purpose="random" if name == RANDOM else "evaluation",
            )
        )
        check_lost(episodes, self.max_lost_share, prefix=f"evaluation {name}: ", require_some=True)
        return episodes


def _solved(episode: Trajectory, turns: int) -> bool:
    """Whether the task was solved with at most `turns` turns. Environments that go on after a
    success say after each action whether the task is solved."""
    if len(episode.turns) <= turns:
        return episode.success
    return episode.turns[turns - 1].success


def heldout_evaluation(spec: RunSpec, tasks: Sequence[DrawnTask]) -> HeldoutEvaluation:
    """The evaluation that the manifest describes, on these tasks."""
    evaluation = spec.evaluation
    dealt = shares([each.weight for each in spec.environments], evaluation.tasks)
    return HeldoutEvaluation(
        tasks=tasks,
        environments=tuple(
            each.name for each, share in zip(spec.environments, dealt, strict=True) if share
        ),
        samples=evaluation.samples,
        max_turns=evaluation.max_turns or spec.horizon.phases[-1].max_turns,
        turn_limits={} if evaluation.max_turns else turn_limits(spec, len(spec.horizon.phases) - 1),
        temperature=evaluation.temperature,
        turn_sweep=evaluation.turn_sweep,
        max_lost_share=spec.rollout.max_lost_share,
    )
