"""torch.compile for functions of a model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def chosen(function: Callable[P, R], *, compiled: bool) -> Callable[P, R]:
    """`function`, or a compiled form of it whose results differ by rounding.

    It is compiled at its first call, which takes seconds to a minute, for any number of tokens."""
    return _compiled(function) if compiled else function


@functools.cache
def _compiled(function: Callable[P, R]) -> Callable[P, R]:
    compiled: Callable[P, R] = torch.compile(function, dynamic=True)
    return compiled
