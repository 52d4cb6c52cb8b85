"""AgentRLRuns as last seen in Kubernetes, kept between two reconciliations.

A watch, a list and the answer to a write all show a run, and not always in the order in which it
changed.

Manifests are kept as JSON text: as models, a thousand of them would take more memory than all the
rest of the operator, and a run is reconciled for some milliseconds in a minute.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agentrl_operator.api import resource
from agentrl_operator.api.conditions import Kind
from agentrl_operator.api.resource import Resource
from agentrl_operator.controller.error_guard import RunGuard, contained
from agentrl_pipelines.platform.config import Platform

Key = tuple[str, str]
"""Namespace and name of a run."""
_METADATA = (
    "name",
    "namespace",
    "uid",
    "generation",
    "resourceVersion",
    "deletionTimestamp",
    "finalizers",
    "labels",
)
"""Fields of the metadata that the operator uses."""
_MAX_DELETED = 10_000
"""Number of deleted runs that are known as such."""
_MAX_PARSED = 64
"""Number of manifests kept as models, too: a new run is reconciled a few times in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedRun:
    """An AgentRLRun, without the metadata that the operator does not use."""

    uid: str
    version: int
    """Its resourceVersion."""
    state: str
    """`status.state`."""
    reason: str
    """The reason of its condition Progressing; empty if it has none."""
    metadata: Mapping[str, Any]
    manifest: str
    """apiVersion, kind and spec as JSON."""
    status_json: str

    @classmethod
    def from_object(cls, body: Mapping[str, Any]) -> CachedRun:
        """The cached form of an object of the Kubernetes API."""
        metadata, status = body["metadata"], body.get("status") or {}
        manifest = {name: body.get(name) for name in ("apiVersion", "kind", "spec")}
        return cls(
            uid=metadata["uid"],
            version=int(metadata["resourceVersion"]),
            state=status.get("state", "Pending"),
            reason=next(
                (
                    one.get("reason", "")
                    for one in status.get("conditions") or ()
                    if one.get("type") == Kind.PROGRESSING
                ),
                "",
            ),
            metadata={name: metadata[name] for name in _METADATA if name in metadata},
            manifest=json.dumps(manifest, ensure_ascii=False),
            status_json=json.dumps(status, ensure_ascii=False),
        )

    @property
    def status(self) -> dict[str, Any]:
        """The status of the object."""
        status: dict[str, Any] = json.loads(self.status_json)
        return status

    @property
    def guard(self) -> RunGuard:
        """Contains the unexpected errors of the run."""
        metadata = self.metadata
        return RunGuard(
            namespace=metadata["namespace"],
            name=metadata["name"],
            deleted="deletionTimestamp" in metadata,
        )

    def same_content(self, other: CachedRun) -> bool:
        """Whether nothing but the resourceVersion differs."""
        unversioned = {"resourceVersion": None}
        return (self.manifest, self.status_json, {**self.metadata, **unversioned}) == (
            other.manifest,
            other.status_json,
            {**other.metadata, **unversioned},
        )


class RunCache:
    """The newest known version of every run that exists."""

    def __init__(self) -> None:
        self._runs: dict[Key, CachedRun] = {}
        self._keys: dict[str, Key] = {}
        """The keys of `_runs` by uid."""
        self._deleted: OrderedDict[str, None] = OrderedDict()
        """Uids of runs that were deleted lately. No other run will have them."""

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, key: Key) -> bool:
        return key in self._runs

    def get(self, key: Key) -> CachedRun | None:
        """The run of this namespace and name; None if there is none."""
        return self._runs.get(key)

    def key(self, uid: str) -> Key | None:
        """The namespace and name of the run with this uid; None if it is not in the cache."""
        return self._keys.get(uid)

    def uids(self) -> frozenset[str]:
        """The uids of all runs."""
        return frozenset(self._keys)

    def states(self) -> list[str]:
        """`status.state` of every run."""
        return [run.state for run in list(self._runs.values())]

    def reasons(self) -> list[str]:
        """The reason of the condition Progressing of every run that has one."""
        return [run.reason for run in list(self._runs.values()) if run.reason]

    def store(self, body: Mapping[str, Any]) -> CachedRun | None:
        """Cache an object of the Kubernetes API, in place of an earlier run of the same name.
        Returns what is cached; None if it is outdated: not newer than the cached version, or
        deleted since."""
        key = key_of(body)
        before = self._runs.get(key)
        uid, version = body["metadata"]["uid"], int(body["metadata"]["resourceVersion"])
        if uid in self._deleted:
            return None
        if before is not None:
            if before.uid == uid and before.version >= version:
                return None
            del self._keys[before.uid]
        run = CachedRun.from_object(body)
        self._runs[key] = run
        self._keys[uid] = key
        return run

    def delete(self, uid: str) -> Key | None:
        """Drop the run with this uid, for good. Returns its namespace and name; None if it is not
        in the cache."""
        self._deleted[uid] = None
        while len(self._deleted) > _MAX_DELETED:
            self._deleted.popitem(last=False)
        key = self._keys.pop(uid, None)
        if key is not None:
            del self._runs[key]
        return key


def key_of(body: Mapping[str, Any]) -> Key:
    """The key of an object of the Kubernetes API."""
    return body["metadata"]["namespace"], body["metadata"]["name"]


class ResourceParser:
    """Makes a `Resource` of a `CachedRun`. The models of recently parsed manifests are kept."""

    def __init__(self, platform: Platform) -> None:
        def validated(manifest: str, name: str, namespace: str) -> resource.ValidatedManifest:
            body = json.loads(manifest) | {"metadata": {"name": name, "namespace": namespace}}
            # Without a resource, the finalizer could not be removed.
            with contained(f"{namespace}/{name}", "is not accepted") as caught:
                return resource.validated_manifest(body, platform)
            mistake = f"spec: internal error while it was validated: {caught.error!r}"
            spec = body.get("spec")
            suspend = isinstance(spec, dict) and spec.get("suspend") is True
            stated = resource.Stated(suspend=suspend)
            return resource.ValidatedManifest(run=None, mistakes=(mistake,), stated=stated)

        self._validated = lru_cache(_MAX_PARSED)(validated)

    def parse(self, run: CachedRun) -> Resource:
        """The resource that `reconcile` decides by."""
        metadata = run.metadata
        manifest = self._validated(run.manifest, metadata["name"], metadata["namespace"])
        return resource.with_metadata(manifest, metadata)
