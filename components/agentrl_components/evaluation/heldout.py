"""Evaluation on held-out tasks, with the same tasks and seeds for every policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agentrl_components.evaluation.summary import HeldoutResult, heldout_result, success_rate
from agentrl_components.rollout.metrics import check_lost, completed
from agentrl_components.rollout.request import CollectRequest
from agentrl_components.rollout.tasks import DrawnTask
from agentrl_components.schedule.turn_limits import turn_limits
from agentrl_components.spec import RunSpec
from agentrl_components.trajectory.record import Trajectory

RANDOM = "random"
"""Name of the evaluation of the random policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldoutEvaluation:
    """Tasks and settings of an evaluation. All policies get the same tasks and random numbers."""

    tasks: Sequence[DrawnTask]
    samples: int
    """Episodes per task."""
    max_turns: int
    turn_limits: Mapping[str, int]
    """Turn limits of single environments, by name; not used by `turn_sweep`."""
    temperature: float
    turn_sweep: tuple[int, ...]
    """Further turn limits to evaluate at (test-time scaling, arXiv 2509.08755, section 4.4)."""
    max_lost_share: float
    """Largest acceptable share of lost episodes."""
    seed: int

    def run(
        self, name: str, play: Callable[[CollectRequest], Sequence[Trajectory]]
    ) -> tuple[HeldoutResult, Sequence[Trajectory]]:
        """Evaluate the policy that `play` samples from. Returns the result and the episodes.

        Raises `RunError` if too many episodes were lost."""
        episodes = self._episodes(name, play, self.max_turns, self.turn_limits)
        sweep = {
            turns: success_rate(completed(self._episodes(name, play, turns, {})), self.seed)
            for turns in self.turn_sweep
        }
        result = heldout_result(name, episodes, self.samples, self.seed)
        return result.model_copy(update={"turn_sweep": sweep}), episodes

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


def heldout_evaluation(spec: RunSpec, tasks: Sequence[DrawnTask]) -> HeldoutEvaluation:
    """The evaluation that the manifest describes, on these tasks."""
    evaluation = spec.evaluation
    return HeldoutEvaluation(
        tasks=tasks,
        samples=evaluation.samples,
        max_turns=evaluation.max_turns or spec.horizon.phases[-1].max_turns,
        turn_limits={} if evaluation.max_turns else turn_limits(spec, len(spec.horizon.phases) - 1),
        temperature=evaluation.temperature,
        turn_sweep=evaluation.turn_sweep,
        max_lost_share=spec.rollout.max_lost_share,
        seed=spec.seed,
    )
