"""What a run has done, as its store knows it: the manifest, each iteration, where it stands.

Nothing in an iteration's record depends on a clock, so the records of two runs can be compared with
diff.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from agentrl_components.errors import SpecError
from agentrl_components.schedule.decision import Decision
from agentrl_components.schedule.history import IterationRecord
from agentrl_components.spec import AgentRLRun
from agentrl_components.spec.mutable import immutable_changes as edited
from agentrl_components.storage import keys
from agentrl_components.storage.records import Found, State, read_state
from agentrl_components.storage.store import Store

PLAYED = ("rollout", "evaluate", "warm start: play")
"""Stages whose seconds environments work, by how their names begin."""


class Journal:
    """Reads and writes the records of one run."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.standing = read_state(store)
        """Where the run is; `state` writes it."""
        self.wall_seconds: dict[str, float] = dict(self.standing.wall_seconds)
        """Seconds of work by stage, over every start of the run."""
        self.devices = 0
        """Accelerators at work."""

    def check(self, run: AgentRLRun) -> None:
        """Raises `SpecError` when another run lives here already."""
        if self.store.exists(keys.RUN):
            before = AgentRLRun.model_validate_json(self.store.get(keys.RUN))
            changed = changes(before, run)
            if changed:
                raise SpecError(
                    [
                        f"{path}: {self.store.url} holds a run that began with {old!r}, "
                        f"not {new!r}; restore the value, or make a new run (on one machine: give "
                        "another --root)"
                        for path, old, new in changed
                    ]
                )

    def begin(self, run: AgentRLRun) -> None:
        """Keep the manifest. Raises as `check` does."""
        self.check(run)
        self.store.replace(keys.RUN, run.model_dump_json(by_alias=True, indent=1).encode())

    def state(self, status: str, message: str, **known: Any) -> None:
        """Move the pointer that says where the run stands; `known` are fields of `State` that
        change with it. What another process failed of for good meanwhile stays told: it is the
        cause of whatever this one still does."""
        there = read_state(self.store)
        cause = {"status", "message", "reason", "final"} if self._failed_meanwhile(there) else set()
        wall = {name: round(seconds, 3) for name, seconds in self.wall_seconds.items()}
        cleared = {"reason": "", "final": False}
        played = sum(s for name, s in wall.items() if name.startswith(PLAYED))
        changed = {
            "status": status,
            "message": message,
            "environment_seconds": round(played, 3),
            "device_seconds": round(sum(wall.values()) * self.devices, 3),
            "wall_seconds": wall,
        }
        self.standing = self.standing.model_copy(update=cleared | changed | known)
        told = self.standing.model_copy(update=there.model_dump(include=cause))
        self.store.replace(keys.STATE, told.model_dump_json(indent=1).encode())

    def _failed_meanwhile(self, there: State) -> bool:
        """What is stored is a failure for good that this journal did not begin with."""
        return there.final and not self.standing.final

    def evaluated(self, found: Found) -> None:
        """Keep the policy's newest evaluation where the run's standing is read."""
        self.standing = self.standing.model_copy(update={"heldout": found})

    def best(self, checkpoint: int) -> None:
        """Keep which checkpoint is the best where the run's standing is read."""
        self.standing = self.standing.model_copy(update={"best": checkpoint})

    def iteration(
        self,
        record: IterationRecord,
        version: int,
        metrics: Mapping[str, float],
        decision: Decision,
    ) -> None:
        """Record an iteration."""
        line = {
            "iteration": record.iteration,
            "phase": record.phase,
            "max_turns": record.max_turns,
            "version": version,
            "metrics": dict(metrics),
            "decision": {
                "action": decision.action,
                "reason": decision.reason,
                "rings": [asdict(ring) for ring in decision.rings],
            },
        }
        data = json.dumps(line, sort_keys=True, indent=1).encode()
        self.store.replace(keys.iteration(record.iteration), data)
        self.state(
            "running",
            decision.reason,
            phase=decision.phase,
            max_turns=decision.max_turns,
            iteration=record.iteration + 1,
            tokens=self.standing.tokens + int(metrics.get("train/tokens", 0)),
        )

    def iterations(self) -> Iterator[dict[str, Any]]:
        """Every iteration's record, in order."""
        for key in self.store.list(keys.ITERATIONS):
            yield json.loads(self.store.get(key))

    def forget_after(self, iterations: int) -> None:
        """Drop records of iterations that will be played again."""
        for key in list(self.store.list(keys.ITERATIONS)):
            if key >= keys.iteration(iterations):
                self.store.delete(key)


def changes(before: AgentRLRun, after: AgentRLRun) -> list[tuple[str, Any, Any]]:
    """(path, old, new) of everything that makes it another run."""
    out = list(edited(before.spec, after.spec))
    if before.metadata.name != after.metadata.name:
        out.append(("metadata.name", before.metadata.name, after.metadata.name))
    return out
