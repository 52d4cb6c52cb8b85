"""Leases in memory."""

from __future__ import annotations

from collections.abc import Callable

from agentrl_operator.leader_election.election import LeaseName, LeaseRecord


class MemoryLeases:
    """`Leases` in memory. `check` is called before each response, and may raise an error."""

    def __init__(self, check: Callable[[], None] = lambda: None) -> None:
        self.records: dict[LeaseName, LeaseRecord] = {}
        self._check = check
        self._version = 0

    async def get(self, name: LeaseName) -> LeaseRecord | None:
        self._check()
        return self.records.get(name)

    async def update(
        self, name: LeaseName, holder: str, duration_s: int, observed: LeaseRecord | None
    ) -> LeaseRecord | None:
        self._check()
        return self.put(name, holder, duration_s, observed)

    def put(
        self, name: LeaseName, holder: str, duration_s: int, observed: LeaseRecord | None
    ) -> LeaseRecord | None:
        """Update a Lease, without `check`."""
        if self.records.get(name) != observed:
            return None
        self._version += 1
        before = observed.transitions if observed is not None else 0
        transition = holder not in ("", observed.holder if observed is not None else "")
        record = LeaseRecord(
            version=str(self._version),
            holder=holder,
            duration_s=duration_s,
            transitions=before + transition,
        )
        self.records[name] = record
        return record
