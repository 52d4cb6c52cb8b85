"""Packages whose names are imported when they are used.

The options of an environment are checked where its libraries are not installed, such as in the
operator: the package with the options must not import the rest.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping


def deferred(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package that has the keys of `modules` as names, each defined in the
    module of the package that is its value."""

    def find(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found: object = getattr(importlib.import_module(f"{package}.{modules[name]}"), name)
        return found

    return find
