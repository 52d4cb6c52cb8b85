"""torch.compile for functions of a model, and the compilers that this and vLLM need at run time."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

from agentrl_components.spec.rules.local import compiler_names

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


def compiler(device: str) -> str | None:
    """The program that compiles kernels for `device` at run time: a C++ compiler, which torch calls
    for CPUs, or a C compiler, which Triton calls for GPUs. None: it is not installed."""
    names = compiler_names(gpu=device != "cpu")
    return next((found for found in map(shutil.which, names) if found), None)
