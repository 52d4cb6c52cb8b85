"""Calls of actors that go on while the caller does something else."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agentrl_components.errors import WorkersLostError
from agentrl_components.ray_workers.calls.results import (
    check_ray,
    ready_now,
    ready_ones,
    results,
)
from agentrl_components.ray_workers.calls.silence import SilenceWatch

ATTEMPTS = 3
"""How often a call is made, each time of another actor. One that kills all of them ends the run."""
TOGETHER_S = 1.0
"""After an actor died, how long to wait for calls of others that died with it."""


@dataclass(frozen=True, slots=True)
class LostActor:
    """An actor one of whose calls raised `death`."""

    place: int
    actor: Any
    death: WorkersLostError


class ReplacedActors(Protocol):
    """Actors with numbered places. One that dies is replaced."""

    @property
    def actors(self) -> Sequence[Any]:
        """Those that are there now, by place."""
        ...

    def replace(self, lost: Sequence[LostActor]) -> None:
        """Have another actor in the place of each, unless that was done already."""
        ...

    def given_up(self, death: WorkersLostError) -> WorkersLostError:
        """The error of a call whose actors died `ATTEMPTS` times, the last time by `death`."""
        ...


@dataclass(slots=True)
class _Call:
    """A call that is under way."""

    key: int
    place: int
    method: str
    arguments: tuple[Any, ...]
    actor: Any = None
    """The one that was called last."""
    began: float = 0.0
    """When it was called, by the clock of the watch."""
    attempts: int = 0


class CallsUnderWay:
    """Calls of actors. If an actor dies, it is replaced as soon as that is noticed, together with
    those that died at the same time, as with their machine, and its calls are made again. So it is
    if it lives but gets no further."""

    def __init__(self, actors: ReplacedActors, watch: SilenceWatch) -> None:
        self._actors, self._watch = actors, watch
        self._calls: dict[Any, _Call] = {}
        """By their references."""

    def start(self, key: int, place: int, method: str, *arguments: object) -> None:
        """Call a method of the actor in a place. `key` identifies the call."""
        self._make(_Call(key, place, method, arguments))

    def wait(self) -> list[tuple[int, Any]]:
        """Keys and results of the calls that have ended and were not returned yet, in the order in
        which they ended. Waits until there is one, unless no call is under way. Raises
        `WorkersLostError` if a call killed all of its actors."""
        ended: list[tuple[int, Any]] = []
        while not ended and self._calls:
            ended = self._taken(ready_ones(list(self._calls), limit_s=self._watch.ask_s))
            self._replace_silent()  # also if calls of other actors end all the time
        return ended

    def poll(self) -> list[tuple[int, Any]]:
        """What `wait` returns, without waiting: nothing, if no call has ended."""
        check_ray()
        ended = self._taken(ready_now(list(self._calls)))
        self._replace_silent()
        return ended

    def cancel(self) -> None:
        """Cancel all calls."""
        import ray

        for reference in self._calls:
            ray.cancel(reference)
        self._calls.clear()

    def _taken(self, ready: Sequence[Any]) -> list[tuple[int, Any]]:
        """Keys and results of calls that have ended. Those of lost actors are made again."""
        ended: list[tuple[int, Any]] = []
        lost: list[tuple[_Call, WorkersLostError]] = []
        ready = list(ready)
        while ready:
            reference = ready.pop(0)
            call = self._calls.pop(reference)
            try:
                (result,) = results([reference])
            except WorkersLostError as death:
                if not lost:
                    ready += self._ended_soon(ready)
                lost.append((call, death))
            else:
                ended.append((call.key, result))
        self._replace(lost)
        return ended

    def _replace_silent(self) -> None:
        """Replace actors that get no further, and make their calls again."""
        actors: dict[int, Any] = {}
        began: dict[int, float] = {}
        for call in self._calls.values():  # in the order in which they were made
            actors[call.place] = call.actor
            began.setdefault(call.place, call.began)
        silent = self._watch.silent(actors, began)
        lost: list[tuple[_Call, WorkersLostError]] = []
        for reference, call in list(self._calls.items()):
            if call.place in silent:
                del self._calls[reference]
                lost.append((call, self._watch.death))
        self._replace(lost)

    def _replace(self, lost: Sequence[tuple[_Call, WorkersLostError]]) -> None:
        """Replace actors, each with a call that it has lost, and make these calls again."""
        for call, death in lost:
            if call.attempts == ATTEMPTS:
                raise self._actors.given_up(death) from death
        if lost:
            self._actors.replace([LostActor(c.place, c.actor, death) for c, death in lost])
        for call, _ in lost:
            self._make(call)

    def _ended_soon(self, known: Sequence[Any]) -> list[Any]:
        """Further calls that have ended after `TOGETHER_S`: actors of one machine die together."""
        time.sleep(TOGETHER_S)
        return [one for one in ready_now(list(self._calls)) if one not in known]

    def _make(self, call: _Call) -> None:
        call.attempts += 1
        call.actor, call.began = self._actors.actors[call.place], self._watch.now()
        self._calls[getattr(call.actor, call.method).remote(*call.arguments)] = call
