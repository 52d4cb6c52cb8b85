"""Leases in memory."""

from __future__ import annotations

from collections.abc import Callable

from agentrl_operator.leader_election.election import Name, Record


class MemoryLeases:
    """All of them. `asked` is called before each answer, and may raise."""

    def __init__(self, asked: Callable[[], None] = lambda: None) -> None:
        self.records: dict[Name, Record] = {}
        self._asked = asked
        self._version = 0

    async def read(self, name: Name) -> Record | None:
        self._asked()
        return self.records.get(name)

    async def write(
        self, name: Name, holder: str, duration_s: int, over: Record | None
    ) -> Record | None:
        self._asked()
        return self.put(name, holder, duration_s, over)

    def put(self, name: Name, holder: str, duration_s: int, over: Record | None) -> Record | None:
        """The write itself."""
        if self.records.get(name) != over:
            return None
        self._version += 1
        before = over.transitions if over is not None else 0
        changes_hands = holder not in ("", over.holder if over is not None else "")
        made = Record(
            version=str(self._version),
            holder=holder,
            duration_s=duration_s,
            transitions=before + changes_hands,
        )
        self.records[name] = made
        return made
