"""The journal of a run in its store: the manifest, every iteration, and the current state.

The record of an iteration contains no clock readings, so the records of two runs can be compared
with diff.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agentrl_components.errors import SpecError, StoreError
from agentrl_components.schedule.record import IterationRecord
from agentrl_components.spec import AgentRLRun
from agentrl_components.spec.mutable import immutable_changes
from agentrl_components.storage import keys
from agentrl_components.storage.records import HeldoutSummary, RunState, read_state
from agentrl_components.storage.store import Store

ENVIRONMENT_STAGES = ("rollout", "evaluate", "warm start: play")
"""Name prefixes of the stages in which environments are in use."""
_NO_FAILURE: dict[str, Any] = {
    "reason": "",
    "final": False,
    "failed_phase": None,
    "failed_attempt": None,
}
"""The fields of `RunState` that describe a failure, of a run that has not failed."""


class Journal:
    """Reads and writes the records of one run."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.current = read_state(store)
        """The state of the run; `write_state` stores it."""
        self.wall_seconds: dict[str, float] = dict(self.current.wall_seconds)
        """Seconds of work by stage, over all starts of the run."""
        self.devices = 0
        """Accelerators in use."""

    def check(self, run: AgentRLRun) -> None:
        """Check that the store holds this run or none. Raises `SpecError` with every immutable
        field that differs."""
        if self.store.exists(keys.RUN):
            before = AgentRLRun.model_validate_json(self.store.get(keys.RUN))
            changed = changes(before, run)
            if changed:
                raise SpecError(
                    [
                        f"{path}: {self.store.url} holds a run that began with {old!r}, "
                        f"not {new!r}; restore the value, or start a new run (on one machine: use "
                        "another --root)"
                        for path, old, new in changed
                    ]
                )

    def check_new(self) -> None:
        """Check that the store holds no result of training, as it does where a run begins. Raises
        `StoreError` with the first result: its checkpoints are gone, and evaluations of other
        weights would be taken for those of a run that begins anew."""
        found = next(iter(self.store.list(keys.ITERATIONS)), None)
        for key in self.store.list(keys.EVALUATIONS):
            name = keys.evaluation_name(key)
            if name in (keys.BEFORE, keys.AFTER) or keys.evaluation_number(name) >= 0:
                found = found or key
        if found is not None:
            raise StoreError(
                f"{self.store.url}: holds {found} and no complete checkpoint to resume from; "
                f"restore one in {keys.CHECKPOINTS}, or start a new run (on one machine: use "
                "another --root)"
            )

    def begin(self, run: AgentRLRun) -> None:
        """Store the manifest. Raises as `check` does."""
        self.check(run)
        self.store.replace(keys.RUN, run.model_dump_json(by_alias=True, indent=1).encode())

    def write_state(self, status: str, message: str, **fields: Any) -> None:
        """Store the state of the run; `fields` are further fields of `RunState`. If another process
        has recorded a final failure meanwhile, its status and message stay: it is the cause of
        what happens here."""
        stored = read_state(self.store)
        failure = {"status", "message", *_NO_FAILURE}
        keep = failure if self._failed_elsewhere(stored) else set()
        wall = {name: round(seconds, 3) for name, seconds in self.wall_seconds.items()}
        environments = sum(s for name, s in wall.items() if name.startswith(ENVIRONMENT_STAGES))
        update = {
            "status": status,
            "message": message,
            "environment_seconds": round(environments, 3),
            "device_seconds": round(sum(wall.values()) * self.devices, 3),
            "wall_seconds": wall,
        }
        self.current = self.current.model_copy(update=_NO_FAILURE | update | fields)
        written = self.current.model_copy(update=stored.model_dump(include=keep))
        self.store.replace(keys.STATE, written.model_dump_json(indent=1).encode())

    def _failed_elsewhere(self, stored: RunState) -> bool:
        """Whether the stored state is a final failure that this journal did not start with."""
        return stored.final and not self.current.final

    def set_heldout(self, found: HeldoutSummary) -> None:
        """Make the newest evaluation of the policy part of the state."""
        self.current = self.current.model_copy(update={"heldout": found})

    def set_best(self, checkpoint: int) -> None:
        """Make the number of the best checkpoint part of the state."""
        self.current = self.current.model_copy(update={"best": checkpoint})

    def write_iteration(self, record: IterationRecord) -> None:
        """Store the record of an iteration, with its decision, and the state after it."""
        decision = record.decision
        assert decision is not None, "an iteration is stored after its decision"
        self.replace_iteration(record)
        self.write_state(
            "running",
            decision.reason,
            phase=decision.phase,
            max_turns=decision.max_turns,
            iteration=record.iteration + 1,
            tokens=self.current.tokens + int(record.metrics.get("train/tokens") or 0),
        )

    def replace_iteration(self, record: IterationRecord) -> None:
        """Store the record of an iteration, and not the state after it."""
        data = json.dumps(record.json_data(), sort_keys=True, indent=1).encode()
        self.store.replace(keys.iteration(record.iteration), data)

    def iterations(self) -> Iterator[dict[str, Any]]:
        """The stored record of every iteration as JSON data, in order."""
        for key in self.store.list(keys.ITERATIONS):
            yield json.loads(self.store.get(key))

    def truncate(self, iterations: int) -> None:
        """Delete the records after the first `iterations`: those iterations will be repeated. The
        state counts them no more before they are deleted, so it never counts more than there
        are. Evaluations of weights after them are deleted too: an evaluation comes before the
        record of its iteration, and repeated iterations may end with other weights."""
        if self.current.iteration > iterations:
            self.write_state(self.current.status, self.current.message, iteration=iterations)
        repeated = [
            key for key in self.store.list(keys.ITERATIONS) if key >= keys.iteration(iterations)
        ]
        later = [
            key
            for key in self.store.list(keys.EVALUATIONS)
            if keys.evaluation_number(keys.evaluation_name(key)) > iterations
            or (repeated and keys.evaluation_name(key) == keys.AFTER)
        ]
        for key in [*later, *repeated]:
            self.store.delete(key)


def changes(before: AgentRLRun, after: AgentRLRun) -> list[tuple[str, Any, Any]]:
    """(path, old, new) of every change that makes it a different run."""
    out = list(immutable_changes(before.spec, after.spec))
    if before.metadata.name != after.metadata.name:
        out.append(("metadata.name", before.metadata.name, after.metadata.name))
    return out
