"""The pool as the stages see it: tasks in, episodes out.

An episode that infrastructure took is played again when the others are done, the same task and
sample, so from the same seeds: a world that failed for a moment leaves no trace in the numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.rollout.tasks import Drawn
from agentrl_components.spec import RunSpec
from agentrl_components.trajectory.record import Ending, Trajectory
from agentrl_components.workers.pool import Pool
from agentrl_components.workers.worker import Worker

RANDOM_POLICY = -1
"""The version of the policy that has no weights."""
ROUNDS = 3
"""How many more times lost episodes are played."""
PAUSE_S = 1.0
"""Seconds before the first of these rounds; each later pause is twice as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What is played, how, and as what."""

    drawn: Sequence[Drawn]
    samples: int
    """Episodes of each task."""
    max_turns: int
    temperature: float
    iteration: int
    purpose: str
    """Keeps the random numbers of training, evaluation and warm start apart."""
    first_group: int = 0
    """Number of the first task's group."""


class Players:
    """Plays on every worker at once, whole groups together."""

    def __init__(
        self,
        spec: RunSpec,
        pool: Pool,
        instructions: Mapping[str, str],
        pause_s: float = PAUSE_S,
    ) -> None:
        self._spec = spec
        self._pool = pool
        self._instructions = instructions
        self._pause_s = pause_s
        self.note: Callable[[str], None] = lambda _: None
        """Told which episodes are played again."""

    def play(self, call: Call, version: int) -> list[Trajectory]:
        """The episodes of `call` by policy `version`, ordered by group and sample. Those still lost
        after `ROUNDS` further rounds are among them, as lost."""
        rules = rules_of(self._spec, call)
        jobs = jobs_of(call, self._instructions, range(len(call.drawn)))
        episodes = self._played(jobs, rules, version)
        for number in range(ROUNDS):
            lost = [i for i, e in enumerate(episodes) if e.ending is Ending.LOST]
            if not lost:
                break
            reason = episodes[lost[-1]].note
            self.note(f"{len(lost)} of {len(jobs)} episodes were lost and begin anew: {reason}")
            time.sleep(self._pause_s * 2**number)
            anew = self._played([jobs[i] for i in lost], rules, version)
            for i, episode in zip(lost, anew, strict=True):
                episodes[i] = episode
        return episodes

    def _played(self, jobs: Sequence[Job], rules: Rules, version: int) -> list[Trajectory]:
        """The trajectories of `jobs`, which are ordered by group and sample, in their order."""
        groups = sorted({job.group for job in jobs})
        parts = min(self._pool.size, len(groups))
        part_of = {group: place % parts for place, group in enumerate(groups)}
        shares = [[job for job in jobs if part_of[job.group] == part] for part in range(parts)]
        played = self._pool.map(Worker.play, [(share, rules, version) for share in shares])
        return sorted((e for some in played for e in some), key=lambda e: (e.group, e.sample))


def rules_of(spec: RunSpec, call: Call) -> Rules:
    """How the episodes of `call` are played."""
    rollout = spec.rollout
    return Rules(
        max_turns=call.max_turns,
        context=spec.model.context,
        max_tokens_per_turn=rollout.max_tokens_per_turn,
        temperature=call.temperature,
        top_p=rollout.top_p,
        admissible=rollout.actions == "admissible" or call.purpose in ("random", "warm start"),
        seed=spec.seed,
        purpose=call.purpose,
    )


def jobs_of(call: Call, instructions: Mapping[str, str], groups: Iterable[int]) -> list[Job]:
    """The episodes of some of the groups of `call`."""
    return [
        Job(
            environment=call.drawn[group].environment,
            instructions=instructions[call.drawn[group].environment],
            task=call.drawn[group].task,
            group=call.first_group + group,
            sample=sample,
            iteration=call.iteration,
        )
        for group in groups
        for sample in range(call.samples)
    ]
