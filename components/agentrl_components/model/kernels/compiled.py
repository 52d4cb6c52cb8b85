"""Functions on NumPy arrays that Numba compiles for this processor.

A call of torch takes microseconds, whatever it computes, and reads and writes whole arrays. One
pass of a small model makes hundreds of them, which together take as long as its matrix products.
`benchmarks/engine.py` and `benchmarks/ablations.py` show what the compiled functions are worth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from numba import njit

P = ParamSpec("P")
R = TypeVar("R")

FUSED = frozenset({"contract"})
"""A product and a sum may be rounded once. The order of operations stays as it is written."""
REORDERED = frozenset({"contract", "reassoc", "nsz"})
"""The compiler may choose the order of a sum, once for all calls."""


def compiled(fastmath: frozenset[str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: compile a function at its first call, and keep the machine code on disk, beside
    the module or in the user's cache, if one of them can be written."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        options = {"nogil": True, "error_model": "numpy", "fastmath": set(fastmath)}
        result: Callable[P, R]
        try:
            result = njit(cache=True, **options)(function)
        except RuntimeError:  # no folder for the machine code
            result = njit(**options)(function)
        return result

    return decorate
