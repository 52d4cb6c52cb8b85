"""Functions on NumPy arrays that Numba compiles for this processor.

A call of torch takes microseconds, whatever it computes, and reads and writes whole arrays. One
pass of a small model makes hundreds of them, which together take as long as its matrix products.
`benchmarks/engine.py` and `benchmarks/compiled_update.py` show what the functions are worth.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ParamSpec, TypeVar

import numpy as np
from numba import config, njit
from numpy.typing import NDArray

P = ParamSpec("P")
R = TypeVar("R")

SHIPPED = "AGENTRL_MACHINE_CODE"
"""Environment variable: the folder with the machine code that an image ships."""
Floats = NDArray[np.float32]
Integers = NDArray[np.int64]
FUSED = frozenset({"contract"})
"""A product and a sum may be rounded once. The order of operations stays as it is written."""
REORDERED = frozenset({"contract", "reassoc", "nsz"})
"""The compiler may choose the order of a sum, once for all calls."""


def use_shipped_code(shipped: str | None, used: str | None) -> None:
    """Copy an image's machine code to the folder that Numba uses, `NUMBA_CACHE_DIR`, if there is
    none yet: Numba reads no folder that it cannot write. Code for another processor or another
    version of a function is ignored by Numba, which compiles it again."""
    if shipped is None or used is None or Path(used).exists():
        return
    part = f"{used}.{os.getpid()}"
    shutil.copytree(shipped, part)
    try:
        os.rename(part, used)
    except OSError:  # another process was first
        shutil.rmtree(part)


use_shipped_code(os.environ.get(SHIPPED), os.environ.get("NUMBA_CACHE_DIR"))


def version_of(modules: Iterable[Path]) -> str:
    """A name for the content of some modules."""
    found = hashlib.sha256()
    for module in sorted(modules):
        content = module.read_bytes()
        found.update(f"{module.name} {len(content)}\n".encode() + content)
    return found.hexdigest()[:16]


def kernel_modules() -> list[Path]:
    """The modules of all folders called `kernels`."""
    package = Path(__file__).parents[2]
    # A search of the whole package would take ten milliseconds of each start.
    return [*package.glob("*/kernels/*.py"), *package.glob("*/*/kernels/*.py")]


VERSION = version_of(kernel_modules())
"""Names the folder of the machine code. Numba compiles a function again when its own file changes,
but not when the file of a function that it calls does, although it includes that one's code."""


def compiled(fastmath: frozenset[str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: compile a function at its first call, and keep the machine code on disk: in
    `NUMBA_CACHE_DIR`, else beside this module, or else in the user's cache, if one of them can be
    written."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        options = {"nogil": True, "error_model": "numpy", "fastmath": set(fastmath)}
        result: Callable[P, R]
        given = config.CACHE_DIR
        config.CACHE_DIR = str(Path(given or Path(__file__).with_name("__pycache__")) / VERSION)
        try:
            result = njit(cache=True, **options)(function)
        except RuntimeError:  # no folder for the machine code
            result = njit(**options)(function)
        finally:
            config.CACHE_DIR = given
        return result

    return decorate
