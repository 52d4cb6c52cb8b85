"""Results of calls to Ray actors, with the errors of this project.

Ray's own calls wait for ever, or end the process, when the raylet or the head has died. So nothing
here waits longer than `POLL_S` without asking whether Ray is still there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import shorten
from typing import Any, Protocol

from agentrl_components.errors import WorkersLostError

AFTER_ERROR_S = 10.0
"""After an error, how long to wait for the other results. An actor that died makes the others fail
with errors of their own, and its death is the cause to report."""
POLL_S = 1.0
TOGETHER_S = 1.0
"""After an actor died, how long to wait for calls of others that died with it."""

ATTEMPTS = 3
"""How often a call is made, each time of another actor. One that kills all of them ends the run."""

DIED = "a process of the run died on Ray"
REASON_LENGTH = 400
"""Most characters of Ray's reason in an error."""

_checks: list[Callable[[], None]] = []
"""Checks of the connection to Ray; a process has one connection."""


@contextmanager
def checking(check: Callable[[], None]) -> Iterator[None]:
    """While the block runs, waiting calls `check`, which raises if Ray is not there any more."""
    _checks.append(check)
    try:
        yield
    finally:
        _checks.remove(check)


def check_ray() -> None:
    """Raise what the connection's check raises if Ray is not there any more."""
    for check in _checks:
        check()


def is_lost_process(error: BaseException) -> bool:
    """Whether one of Ray's errors says that an actor has died or cannot be reached, or a node.
    `OutOfMemoryError` stands for an actor that Ray's memory monitor killed; it is no
    `RayActorError`."""
    from ray.exceptions import NodeDiedError, ObjectLostError, OutOfMemoryError, RayActorError

    return isinstance(error, NodeDiedError | ObjectLostError | OutOfMemoryError | RayActorError)


def reason_of(error: BaseException) -> str:
    """Why an actor or a node died: the line of Ray's error that says it. It is the last one, after
    ids and traces, but for `OutOfMemoryError`, which ends with advice."""
    from ray.exceptions import OutOfMemoryError

    lines = str(error).strip().splitlines() or [type(error).__name__]
    reason = lines[0] if isinstance(error, OutOfMemoryError) else lines[-1]
    return shorten(reason, REASON_LENGTH, placeholder=" ...").rstrip(".")


def results(references: Sequence[Any]) -> list[Any]:
    """The results of calls to several actors, in order.

    Raises:
        WorkersLostError: an actor has died, or a node: the one by which this process is connected,
            or one that held a result or an argument.
        RunError: the head of the cluster does not answer any more.
        Exception: what the first call that failed raised.
    """
    import ray
    from ray.exceptions import RayError, RayTaskError

    out: dict[Any, Any] = {}
    failed: BaseException | None = None
    since = time.monotonic()
    waiting = list(references)
    check_ray()  # actors outlive their raylet for a while, but nothing can be replaced
    while waiting:
        ready, waiting = ray.wait(waiting, timeout=POLL_S)
        if not ready:
            check_ray()
            if failed is not None and time.monotonic() - since > AFTER_ERROR_S:
                break
            continue
        since = time.monotonic()
        try:
            out[ready[0]] = ray.get(ready[0])
        except RayError as error:
            raised = error.cause if isinstance(error, RayTaskError) else error
            if is_lost_process(raised):  # of a task: that held an argument
                check_ray()  # whose end is the cause then
                raise WorkersLostError(f"{DIED}: {reason_of(raised)}") from raised
            if raised is error:
                raise
            failed = failed or raised
    if failed is not None:
        raise failed
    return [out[reference] for reference in references]


def outcomes(references: Sequence[Any]) -> list[Any]:
    """The results of calls to several actors, in order, with a `WorkersLostError` in the place of
    each whose actor has died or could not be reached. Raises what a call raised, and what `results`
    raises if Ray has ended."""
    out: list[Any] = []
    for reference in references:
        try:
            out += results([reference])
        except WorkersLostError as lost:
            check_ray()  # whose end is an error of all calls
            out.append(lost)
    return out


def results_of_living(references: Sequence[Any]) -> list[Any]:
    """The results of calls to several actors, in order, without those that are lost. Raises what
    `outcomes` raises."""
    return [one for one in outcomes(references) if not isinstance(one, WorkersLostError)]


def ready_ones(references: Sequence[Any], *, fetch: bool = True) -> list[Any]:
    """The references whose results are there, at least one. Raises what `results` raises if Ray
    has ended. Without `fetch` a result may be on another machine, and stays there."""
    import ray

    while True:
        check_ray()
        ready, _ = ray.wait(list(references), num_returns=1, timeout=POLL_S, fetch_local=fetch)
        if ready:
            return ready_now(references, fetch=fetch)


def ready_now(references: Sequence[Any], *, fetch: bool = True) -> list[Any]:
    """Those of `ready_ones` that are there without waiting."""
    import ray

    if not references:
        return []
    count = len(references)
    ready, _ = ray.wait(list(references), num_returns=count, timeout=0, fetch_local=fetch)
    return list(ready)


def stream(generator: Any, others: Sequence[Any] = ()) -> Iterator[Any]:
    """The references of a streaming call, each as soon as it is there. Their objects stay on the
    machine of the actor until somebody reads them. Raises Ray's errors, and
    what `results` raises: if Ray has ended, and as soon as one of the streaming calls `others`
    fails, without whose actors the first one may wait for ever."""
    watched = [other.completed() for other in others]
    while True:
        ready = ready_ones([generator, *watched], fetch=False)
        for ended in [one for one in watched if one in ready]:
            results([ended])
            watched.remove(ended)
        if generator not in ready:
            continue
        try:
            yield next(generator)
        except StopIteration:
            return


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
    attempts: int = 0


class CallsUnderWay:
    """Calls of actors. If an actor dies, it is replaced as soon as that is noticed, together with
    those that died at the same time, as with their machine, and its calls are made again."""

    def __init__(self, actors: ReplacedActors) -> None:
        self._actors = actors
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
            ended = self._taken(ready_ones(list(self._calls)))
        return ended

    def poll(self) -> list[tuple[int, Any]]:
        """What `wait` returns, without waiting: nothing, if no call has ended."""
        check_ray()
        return self._taken(ready_now(list(self._calls)))

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
                if call.attempts == ATTEMPTS:
                    raise self._actors.given_up(death) from death
                if not lost:
                    ready += self._ended_soon(ready)
                lost.append((call, death))
            else:
                ended.append((call.key, result))
        if lost:
            self._actors.replace([LostActor(c.place, c.actor, death) for c, death in lost])
            for call, _ in lost:
                self._make(call)
        return ended

    def _ended_soon(self, known: Sequence[Any]) -> list[Any]:
        """Further calls that have ended after `TOGETHER_S`: actors of one machine die together."""
        time.sleep(TOGETHER_S)
        return [one for one in ready_now(list(self._calls)) if one not in known]

    def _make(self, call: _Call) -> None:
        call.attempts += 1
        call.actor = self._actors.actors[call.place]
        self._calls[getattr(call.actor, call.method).remote(*call.arguments)] = call
