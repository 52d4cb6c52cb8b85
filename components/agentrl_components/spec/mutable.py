"""Which fields of a manifest may be changed while its run exists.

The same list holds for the API server and for the stages. Results are a function of the manifest,
so every field that affects them is immutable. Mutable fields say where the run executes, how long
it may take, and where its results are stored and shown.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from typing import Any, Literal

from agentrl_components.spec.fields.run import RunSpec

MUTABLE: tuple[str, ...] = (
    "environments.*.tokenEnv",
    "environments.*.secretEnv",
    "environments.*.env",
    "environments.*.volumes",
    "environments.*.timeoutS",
    "environments.*.replicas",
    "environments.*.workers",
    "environments.*.runtimeClassName",
    "environments.*.scaling",
    "environments.*.nodeSelector",
    "environments.*.tolerations",
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
"""Mutable paths under `spec`, each with everything below it; `*` stands for every item of a list.
All other fields are immutable."""

LASTING: tuple[str, ...] = ("compute.ray",)
"""Optional fields below `MUTABLE` whose value may be changed, but which may be neither added nor
removed: the optimizer's files of trainers on Ray differ from those of a run without Ray."""


def mutability(path: str) -> Literal["mutable", "partly", "immutable"]:
    """Whether the field at `path`, written as in `MUTABLE`, may be changed. `partly`: some fields
    below it may."""
    if any(path == mutable or path.startswith(f"{mutable}.") for mutable in MUTABLE):
        return "mutable"
    partly = any(mutable.startswith(f"{path}.") for mutable in MUTABLE)
    return "partly" if partly else "immutable"


def immutable_changes(before: RunSpec, after: RunSpec) -> Iterator[tuple[str, Any, Any]]:
    """(path, old value, new value) of every immutable field that differs between the two, and of
    every field of `LASTING` that only one of them has."""
    old, new = (spec.model_dump(mode="json", by_alias=True) for spec in (before, after))
    yield from _differences(old, new, "", "spec")
    for path in LASTING:
        was, now = (functools.reduce(operator.getitem, path.split("."), one) for one in (old, new))
        if (was is None) != (now is None):
            yield f"spec.{path}", was, now


def _differences(old: Any, new: Any, path: str, shown: str) -> Iterator[tuple[str, Any, Any]]:
    if mutability(path) == "mutable":
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            inner = f"{path}.{name}" if path else name
            yield from _differences(old.get(name), new.get(name), inner, f"{shown}.{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _differences(one, other, f"{path}.*", f"{shown}[{index}]")
    elif old != new:
        yield shown, old, new
