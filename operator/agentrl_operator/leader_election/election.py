"""Which of several operators acts: the one that holds the Lease. Here: what to do about it, a pure
function of the Lease as it was seen, of one's own name and of one's own clock.

As in client-go's leaderelection, no two machines' clocks are compared. Who holds the Lease may act
for `act_s` after it *sent* its last write that succeeded. Who waits counts `duration_s` from when
it first saw that write, which is later, and then writes over the version that it saw, which fails
if the holder wrote meanwhile. So whatever is slow, one has stopped before the other begins, as long
as no clock runs half as fast again as another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """Of a Lease."""

    namespace: str
    name: str

    @classmethod
    def read(cls, text: str) -> Name:
        """From NAMESPACE/NAME. Raises `ValueError`."""
        namespace, _, name = text.partition("/")
        if not namespace or not name or "/" in name:
            raise ValueError(f"{text!r}: a Lease is named NAMESPACE/NAME")
        return cls(namespace=namespace, name=name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A Lease as it stands in Kubernetes."""

    version: str
    """Another one after each write, whoever's."""
    holder: str
    """Empty: nobody."""
    duration_s: int
    """So long it must stand unchanged before another may take it."""
    transitions: int = 0
    """Times that it has changed hands."""
    acquired: str = ""
    """When it last did, by the holder's clock: for people."""


class Leases(Protocol):
    """What is asked of Kubernetes. Every method may raise `KubernetesError`."""

    async def read(self, name: Name) -> Record | None:
        """A Lease as it is now. None: there is none."""
        ...

    async def write(
        self, name: Name, holder: str, duration_s: int, over: Record | None
    ) -> Record | None:
        """Let `holder` hold it, if it is still as in `over` (None: if there is none); the Lease as
        it is then. None: it is not."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """In seconds, all from one number."""

    duration_s: int = 15

    @property
    def act_s(self) -> float:
        """So long the holder acts on after it sent a write. What is left of the duration is for
        what it had asked for, to have an end."""
        return self.duration_s * 2 / 3

    @property
    def renew_s(self) -> float:
        """Between two writes of the holder."""
        return self.duration_s / 5

    @property
    def patience_s(self) -> float:
        """For an answer."""
        return self.duration_s / 3

    @property
    def retry_s(self) -> float:
        """Between two looks of who waits, and after a failure."""
        return self.duration_s / 15


USUAL = Timing()

Move = Literal["look", "take", "wait", "renew", "lost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one operator knows. All times are by its own clock."""

    me: str
    """Nobody else's name, and not the one of this process' predecessor."""
    timing: Timing = USUAL
    record: Record | None = None
    """As last seen. None: there was no Lease."""
    seen_at: float | None = None
    """When this version was first seen. None: nobody has looked."""
    until: float | None = None
    """It may act until then. None: it has not held the Lease."""

    def saw(self, record: Record | None, at: float) -> View:
        """The Lease is like this."""
        known = self.seen_at is not None and _version(record) == _version(self.record)
        return self if known else replace(self, record=record, seen_at=at)

    def wrote(self, record: Record, sent: float, at: float) -> View:
        """Its own write, sent then, was accepted."""
        return replace(self, record=record, seen_at=at, until=sent + self.timing.act_s)

    @property
    def holder(self) -> str:
        """Who holds it, as far as was seen. Empty: nobody."""
        return self.record.holder if self.record is not None else ""


def move(view: View, now: float) -> Move:
    """What to do now. `take` and `renew` are writes over the version that was seen."""
    if view.until is not None:
        mine = view.holder == view.me and now < view.until
        return "renew" if mine else "lost"
    if view.seen_at is None:
        return "look"
    if view.record is None or view.holder in ("", view.me):  # its own: an answer that was lost
        return "take"
    stood_s = max(view.record.duration_s, view.timing.duration_s)
    return "take" if now >= view.seen_at + stood_s else "wait"


def _version(record: Record | None) -> str | None:
    return record.version if record is not None else None
