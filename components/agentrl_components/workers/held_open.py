"""A context manager over an `ExitStack`."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Self


class HeldOpen:
    """Base of objects that keep other things open until their `with` block ends. What they keep
    open is told the error that ended the block."""

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
