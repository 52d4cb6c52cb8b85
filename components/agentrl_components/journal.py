"""What a run has done, as its store knows it: the manifest, each iteration, where it stands.

Nothing in an iteration's record depends on a clock, so the records of two runs can be compared with
diff.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from agentrl_components import layout
from agentrl_components.errors import SpecError
from agentrl_components.expansion import Decision
from agentrl_components.history import IterationRecord
from agentrl_components.spec import AgentRLRun
from agentrl_components.store import Store

FREE = (
    "suspend",
    "active_deadline_seconds",
    "backoff_limit",
    "ttl_seconds_after_finished",
    "compute",
    "tracking",
)
"""Parts of a manifest that may change between two starts of one run: no number depends on them."""


class Journal:
    """Reads and writes the records of one run."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.wall_seconds: dict[str, float] = {}
        """Seconds of work by stage, over every start of the run."""
        if store.exists(layout.STATE):
            self.wall_seconds = json.loads(store.get(layout.STATE))["wall_seconds"]

    def check(self, run: AgentRLRun) -> None:
        """Raises `SpecError` when another run lives here already."""
        if self.store.exists(layout.RUN):
            before = AgentRLRun.model_validate_json(self.store.get(layout.RUN))
            changed = changes(before, run)
            if changed:
                raise SpecError(
                    [
                        f"{path}: {self.store.url} holds a run that began with {old!r}, "
                        f"not {new!r}; restore the value, or give another --root"
                        for path, old, new in changed
                    ]
                )

    def begin(self, run: AgentRLRun) -> None:
        """Keep the manifest. Raises as `check` does."""
        self.check(run)
        self.store.replace(layout.RUN, run.model_dump_json(by_alias=True, indent=1).encode())

    def state(self, status: str, message: str) -> None:
        """Move the pointer that says where the run stands."""
        state = {
            "status": status,
            "message": message,
            "wall_seconds": {k: round(v, 3) for k, v in self.wall_seconds.items()},
        }
        self.store.replace(layout.STATE, json.dumps(state, indent=1).encode())

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
        self.store.replace(layout.iteration(record.iteration), data)

    def iterations(self) -> Iterator[dict[str, Any]]:
        """Every iteration's record, in order."""
        for key in self.store.list(layout.ITERATIONS):
            yield json.loads(self.store.get(key))

    def forget_after(self, iterations: int) -> None:
        """Drop records of iterations that will be played again."""
        for key in list(self.store.list(layout.ITERATIONS)):
            if key >= layout.iteration(iterations):
                self.store.delete(key)


def changes(before: AgentRLRun, after: AgentRLRun) -> list[tuple[str, Any, Any]]:
    """(path, old, new) of everything that makes it another run."""
    out: list[tuple[str, Any, Any]] = []

    def compare(old: Any, new: Any, path: str) -> None:
        if isinstance(old, dict) and isinstance(new, dict):
            for name in sorted({*old, *new}):
                compare(old.get(name), new.get(name), f"{path}.{name}")
        elif old != new:
            out.append((path, old, new))

    old, new = (
        run.spec.model_dump(mode="json", by_alias=True, exclude=set(FREE))
        for run in (before, after)
    )
    compare(old, new, "spec")
    compare(before.metadata.name, after.metadata.name, "metadata.name")
    return out
