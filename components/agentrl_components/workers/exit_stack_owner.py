"""A context manager over an `ExitStack`."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Self


class ExitStackOwner:
    """Base of context managers that own an `ExitStack`. Its contexts get the exception that ended
    the block."""

    _opened: ExitStack

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._opened.__exit__(kind, error, trace)
