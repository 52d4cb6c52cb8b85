"""What to collect: tasks, episodes per task, and how they are played."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.rollout.tasks import DrawnTask
from agentrl_components.spec import RunSpec

RANDOM_POLICY = -1
"""Version of the policy that draws admissible actions uniformly; it has no weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectRequest:
    """A batch of episodes to play."""

    tasks: Sequence[DrawnTask]
    samples: int
    """Episodes of each task."""
    max_turns: int
    """Turn limit in environments without one of their own."""
    temperature: float
    iteration: int
    purpose: str
    """Part of every seed: keeps the random streams of training, evaluation and warm start apart."""
    first_group: int = 0
    """Group number of the first task."""
    turn_limits: Mapping[str, int] = field(default_factory=dict)
    """Turn limits of single environments, by name."""

    def rules(self, spec: RunSpec) -> Rules:
        """The rules that all its episodes are played by."""
        rollout = spec.rollout
        return Rules(
            max_turns=self.max_turns,
            context=spec.model.context,
            max_tokens_per_turn=rollout.max_tokens_per_turn,
            temperature=self.temperature,
            top_p=rollout.top_p,
            admissible=rollout.actions == "admissible" or self.purpose in ("random", "warm start"),
            seed=spec.seed,
            purpose=self.purpose,
            turn_limits=self.turn_limits,
        )

    def jobs(
        self, instructions: Mapping[str, str], groups: Iterable[int] | None = None
    ) -> list[Job]:
        """One job per episode, ordered by group and sample; of all tasks, or of those at the
        indices `groups`. `instructions` are the environments' prompts by name.

        The samples of a task that is among `tasks` again, as when a finite split starts over, are
        numbered on: their seeds are others."""
        firsts = self._first_samples()
        return [
            Job(
                environment=self.tasks[index].environment,
                instructions=instructions[self.tasks[index].environment],
                task=self.tasks[index].task,
                group=self.first_group + index,
                sample=firsts[index] + sample,
                iteration=self.iteration,
            )
            for index in (range(len(self.tasks)) if groups is None else groups)
            for sample in range(self.samples)
        ]

    def _first_samples(self) -> list[int]:
        """The number of the first sample of each group."""
        times: Counter[tuple[str, str]] = Counter()
        firsts = []
        for drawn in self.tasks:
            task = (drawn.environment, drawn.task.id)
            firsts.append(self.samples * times[task])
            times[task] += 1
        return firsts
