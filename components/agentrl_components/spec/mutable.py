"""What of a manifest may change while its run lives: one list, for the API server and for stages.

A run is a function of its manifest, so a field that shows in a number is fixed. What is free says
where the work happens, how long it may take, where its results are kept and shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from agentrl_components.spec.fields.run import RunSpec

FREE: tuple[str, ...] = (
    "environments.*.tokenEnv",
    "environments.*.secretEnv",
    "environments.*.timeoutS",
    "environments.*.replicas",
    "environments.*.cpu",
    "environments.*.memory",
    "rollout.maxLostShare",
    "rollout.retries",
    "rollout.concurrency",
    "update.gradientCheckpointing",
    "update.keepLast",
    "compute",
    "storage.endpoint",
    "storage.region",
    "storage.accessKeyEnv",
    "storage.secretKeyEnv",
    "storage.onDelete",
    "tracking",
    "suspend",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
)
"""Paths under `spec` that may change, with all below them; `*` is every item of a list. Everything
else is fixed."""


def freedom(path: str) -> Literal["free", "partly", "fixed"]:
    """Whether the field at `path`, written as in `FREE`, may change."""
    if any(path == one or path.startswith(f"{one}.") for one in FREE):
        return "free"
    return "partly" if any(one.startswith(f"{path}.") for one in FREE) else "fixed"


def changes(before: RunSpec, after: RunSpec) -> Iterator[tuple[str, Any, Any]]:
    """(path, old, new) of every fixed field that is not the same in both."""
    old, new = (spec.model_dump(mode="json", by_alias=True) for spec in (before, after))
    yield from _changes(old, new, "", "spec")


def _changes(old: Any, new: Any, path: str, shown: str) -> Iterator[tuple[str, Any, Any]]:
    if freedom(path) == "free":
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            inner = f"{path}.{name}" if path else name
            yield from _changes(old.get(name), new.get(name), inner, f"{shown}.{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _changes(one, other, f"{path}.*", f"{shown}[{index}]")
    elif old != new:
        yield shown, old, new
