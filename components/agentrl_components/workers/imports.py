"""Importing, with no collection of garbage meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """For imports of thousands of modules. What they make stays; to look through it for garbage
    again and again takes a fifth of their time. Nor is it looked through later, so that memory
    which a fork shares stays shared."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
