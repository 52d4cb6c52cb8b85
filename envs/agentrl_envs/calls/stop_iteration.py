"""Calls whose result is awaited must not raise `StopIteration`.

A future of asyncio refuses this error inside a callback of the event loop, and whoever awaits it
waits for ever. The usual cause is `next(...)` without a match in the code of an environment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def without_stop_iteration(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Make the call. Raises a `StopIteration` of it as a `RuntimeError` with the same frames, as a
    generator does (PEP 479), and every other error unchanged."""
    try:
        return call(*args, **kwargs)
    except StopIteration as stop:
        error = RuntimeError("the call raised StopIteration")
        raise error.with_traceback(stop.__traceback__) from None
