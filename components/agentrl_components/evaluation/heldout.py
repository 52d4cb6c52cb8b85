"""An exam: held-out tasks and how they are played, the same for every policy that sits it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentrl_components.evaluation.summary import Evaluated, share, summarise
from agentrl_components.rollout.metrics import check_lost, completed
from agentrl_components.rollout.request import CollectRequest
from agentrl_components.rollout.tasks import DrawnTask
from agentrl_components.spec import RunSpec
from agentrl_components.trajectory.record import Trajectory

RANDOM = "random"
"""The name of the evaluation that the random policy sits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exam:
    """What is asked. Every policy meets the same tasks and the same random numbers."""

    tasks: Sequence[DrawnTask]
    samples: int
    """Tries at each task."""
    max_turns: int
    temperature: float
    turn_sweep: tuple[int, ...]
    """Also asked with so many turns (test-time scaling, arXiv 2509.08755, section 4.4)."""
    max_lost_share: float
    """More lost episodes than this are no result."""
    seed: int

    def sit(
        self, name: str, play: Callable[[CollectRequest], Sequence[Trajectory]]
    ) -> tuple[Evaluated, Sequence[Trajectory]]:
        """What the policy that `play` plays with scored, and its episodes. Raises `RunError` where
        too many of them were lost."""
        episodes = self._played(name, play, self.max_turns)
        sweep = {
            turns: share(completed(self._played(name, play, turns)), self.seed)
            for turns in self.turn_sweep
        }
        found = summarise(name, episodes, self.samples, self.seed)
        return found.model_copy(update={"turn_sweep": sweep}), episodes

    def _played(
        self, name: str, play: Callable[[CollectRequest], Sequence[Trajectory]], max_turns: int
    ) -> Sequence[Trajectory]:
        episodes = play(
            CollectRequest(
                tasks=self.tasks,
                samples=self.samples,
                max_turns=max_turns,
                temperature=self.temperature,
                iteration=-1,
                purpose="random" if name == RANDOM else "evaluation",
            )
        )
        check_lost(episodes, self.max_lost_share, prefix=f"evaluation {name}: ", require_some=True)
        return episodes


def exam(spec: RunSpec, tasks: Sequence[DrawnTask]) -> Exam:
    """The exam that a manifest asks for, on these tasks."""
    evaluation = spec.evaluation
    return Exam(
        tasks=tasks,
        samples=evaluation.samples,
        max_turns=evaluation.max_turns or spec.horizon.phases[-1].max_turns,
        temperature=evaluation.temperature,
        turn_sweep=evaluation.turn_sweep,
        max_lost_share=spec.rollout.max_lost_share,
        seed=spec.seed,
    )
