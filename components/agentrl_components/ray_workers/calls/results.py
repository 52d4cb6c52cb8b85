"""Results of calls to Ray actors, with the errors of this project.

Ray's own calls wait for ever, or end the process, when the raylet or the head has died. So nothing
here waits longer than `POLL_S` without asking whether Ray is still there, and, while actors are
opened, whether the run is to stop.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from textwrap import shorten
from typing import Any

from agentrl_components.errors import WorkersLostError

AFTER_ERROR_S = 10.0
"""After an error, how long to wait for the other results. An actor that died makes the others fail
with errors of their own, and its death is the cause to report."""
POLL_S = 1.0

DIED = "a process of the run died on Ray"
REASON_LENGTH = 400
"""Most characters of Ray's reason in an error."""

_checks: list[Callable[[], None]] = []
"""Checks of what this process waits for: its one connection to Ray, and that it may go on."""


@contextmanager
def checking(check: Callable[[], None]) -> Iterator[None]:
    """While the block runs, waiting calls `check`, which raises if Ray is not there any more, or
    `Stopped` if nothing is lost by ending the wait."""
    _checks.append(check)
    try:
        yield
    finally:
        _checks.remove(check)


def check_ray() -> None:
    """Raise what a check of `checking` raises: Ray is not there any more, or the run is to stop."""
    for check in _checks:
        check()


def is_lost_process(error: BaseException) -> bool:
    """Whether one of Ray's errors says that an actor has died or cannot be reached, or a node.
    `OutOfMemoryError` stands for an actor that Ray's memory monitor killed; it is no
    `RayActorError`."""
    from ray.exceptions import NodeDiedError, ObjectLostError, OutOfMemoryError, RayActorError

    return isinstance(error, NodeDiedError | ObjectLostError | OutOfMemoryError | RayActorError)


def is_failed_device(error: BaseException) -> bool:
    """Whether an error of an actor says that its GPU failed, or its connection to the others in a
    process group. Another process may do the same work. A GPU that is too small is no failure. Of
    gloo's errors, which have no class of their own, the text says where in gloo they were raised.
    """
    import torch
    from torch import distributed

    kinds = (
        torch.AcceleratorError,
        distributed.DistBackendError,
        distributed.DistNetworkError,
        distributed.DistStoreError,
    )
    return isinstance(error, kinds) or "/gloo/transport/" in str(error)


def reason_of(error: BaseException) -> str:
    """Why an actor or a node died: the line of Ray's error that says it. It is the last one, after
    ids and traces, but for `OutOfMemoryError`, which ends with advice."""
    from ray.exceptions import OutOfMemoryError

    lines = str(error).strip().splitlines() or [type(error).__name__]
    reason = lines[0] if isinstance(error, OutOfMemoryError) else lines[-1]
    return shorten(reason, REASON_LENGTH, placeholder=" ...").rstrip(".")


def results(
    references: Sequence[Any], check: Callable[[Sequence[Any]], None] = lambda _: None
) -> list[Any]:
    """The results of calls to several actors, in order. `check` is called with those that are
    under way, about once a `POLL_S`, and may raise an error that ends the wait.

    Raises:
        WorkersLostError: an actor has died, or a node: the one by which this process is connected,
            or one that held a result or an argument; or the GPU of an actor has failed, or its
            connection to other actors.
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
            check(waiting)
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
            if is_failed_device(raised):
                lost = WorkersLostError(f"a process of the run failed: {reason_of(raised)}")
                lost.__cause__ = raised
                raised = lost
            failed = failed or raised
    if failed is not None:
        raise failed
    return [out[reference] for reference in references]


def call_all(actors: Sequence[Any], method: str, *arguments: object, **named: object) -> list[Any]:
    """Call a method of each actor with the same arguments. Returns and raises as `results`."""
    return results([getattr(actor, method).remote(*arguments, **named) for actor in actors])


def outcomes(
    references: Sequence[Any], check: Callable[[Sequence[Any]], None] = lambda _: None
) -> list[Any]:
    """The results of calls to several actors, in order, with a `WorkersLostError` in the place of
    each whose actor has died or could not be reached. `check` is that of `results`. Raises what a
    call raised, and what `results` raises if Ray has ended."""
    out: list[Any] = []

    def check_all(_: Sequence[Any]) -> None:
        ready = ready_now(references)
        check([reference for reference in references if reference not in ready])

    for reference in references:
        try:
            out += results([reference], check_all)
        except WorkersLostError as lost:
            check_ray()  # whose end is an error of all calls
            out.append(lost)
    return out


def ready_ones(
    references: Sequence[Any], *, fetch: bool = True, limit_s: float = math.inf
) -> list[Any]:
    """The references whose results are there, at least one, unless there is none after `limit_s`.
    Raises what `results` raises if Ray has ended. Without `fetch` a result may be on another
    machine, and stays there."""
    import ray

    deadline = time.monotonic() + limit_s
    while True:
        check_ray()
        ready, _ = ray.wait(list(references), num_returns=1, timeout=POLL_S, fetch_local=fetch)
        if ready or time.monotonic() > deadline:
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
    fails, because the first one may then never end."""
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
