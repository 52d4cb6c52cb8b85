"""The pool as the stages see it: tasks in, episodes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agentrl_components.episode import Job, Rules
from agentrl_components.pool import Pool
from agentrl_components.spec import RunSpec
from agentrl_components.tasks import Drawn
from agentrl_components.trajectory import Trajectory
from agentrl_components.worker import Worker

RANDOM_POLICY = -1
"""The version of the policy that has no weights."""


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

    def __init__(self, spec: RunSpec, pool: Pool, instructions: Mapping[str, str]) -> None:
        self._spec = spec
        self._pool = pool
        self._instructions = instructions

    def play(self, call: Call, version: int) -> list[Trajectory]:
        """The episodes of `call` by policy `version`, ordered by group and sample."""
        parts = min(self._pool.size, len(call.drawn))
        rules = rules_of(self._spec, call)
        jobs = [
            jobs_of(call, self._instructions, range(part, len(call.drawn), parts))
            for part in range(parts)
        ]
        played = self._pool.map(Worker.play, [(some, rules, version) for some in jobs])
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
