"""Upload a model's folder to an MLflow run and register it.

A model has gigabytes. So files that the server has are not uploaded again when a job is repeated,
requests may take minutes, and the tracker hears of every file."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agentrl_components.tracking.send_queue import Model

_HASH_TAG = "agentrl.sha256"
_TIMEOUT_VARIABLE = "MLFLOW_HTTP_REQUEST_TIMEOUT"
_TIMEOUT_S = 240
"""At least this long a server may take to answer a request. It answers an upload when it has
written the file, of gigabytes, to where it keeps artifacts."""

SIGNATURE = """\
signature:
  inputs: '[{"type": "string", "name": "dialogue", "required": true}]'
  outputs: '[{"type": "string", "name": "reply", "required": true}]'
  params: null
"""
"""The model's signature in the form of an MLmodel file. Written as text, since MLflow's classes for
signatures import pandas, which `light_import` leaves out."""


class Registry:
    """Registers models of one MLflow run.

    Args:
        client: an `MlflowClient`.
        run_id: the MLflow run.
        artifacts: the run's artifact location, a URI.
        progress: called with the size in bytes of each file that is to be read or uploaded.
    """

    def __init__(
        self, client: Any, run_id: str, artifacts: str, progress: Callable[[int], None]
    ) -> None:
        self._client = client
        self._run_id = run_id
        self._artifacts = artifacts
        self._progress = progress

    def register(self, job: Model) -> None:
        """Upload the model and register it, unless the same weights of this run are registered.
        Raises what MLflow raises."""
        from mlflow.exceptions import MlflowException

        name = job.name
        files = sorted(path for path in job.folder.rglob("*") if path.is_file())
        digest = self._digest(job.folder, files)
        path = f"model/{digest[:12]}"
        with _longer_timeout():
            # It exists, or the next call fails in the same way.
            with contextlib.suppress(MlflowException):
                self._client.create_registered_model(name)
            for version in self._client.search_model_versions(f"name = '{name}'"):
                if version.run_id == self._run_id and version.tags.get(_HASH_TAG) == digest:
                    return
            self._upload(job.folder, files, path)
            self._progress(0)
            self._describe(job, path)
            self._client.create_model_version(
                name,
                f"{self._artifacts}/{path}",
                self._run_id,
                tags={_HASH_TAG: digest},
                description=job.description or None,
            )

    def _digest(self, folder: Path, files: list[Path]) -> str:
        digest = hashlib.sha256()
        for path in files:
            self._progress(path.stat().st_size)
            digest.update(path.relative_to(folder).as_posix().encode())
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()

    def _upload(self, folder: Path, files: list[Path], path: str) -> None:
        """Upload the files that the server does not have. `path` contains their hash."""
        known: dict[str, dict[str, int]] = {}
        for file in files:
            inner = file.parent.relative_to(folder).as_posix()
            place = path if inner == "." else f"{path}/{inner}"
            if place not in known:
                known[place] = self._sizes(place)
            size = file.stat().st_size
            self._progress(size)
            if known[place].get(f"{place}/{file.name}") != size:
                self._client.log_artifact(self._run_id, str(file), place)

    def _sizes(self, place: str) -> dict[str, int]:
        """Sizes in bytes of the files in a folder of the run's artifacts, by path."""
        # If they cannot be listed, all are uploaded, or that fails in the same way. Clients of
        # buckets have errors of their own, as for keys that may write and not list.
        with contextlib.suppress(Exception):
            found = self._client.list_artifacts(self._run_id, place)
            return {one.path: one.file_size for one in found if not one.is_dir}
        return {}

    def _describe(self, job: Model, path: str) -> None:
        """Upload the file by which MLflow's tools recognise a model."""
        from mlflow.models import Model as ModelDescription

        with tempfile.TemporaryDirectory() as scratch:
            described = ModelDescription(
                artifact_path=path, run_id=self._run_id, metadata=dict(job.metadata) or None
            )
            described.save(f"{scratch}/MLmodel")
            with open(f"{scratch}/MLmodel", "a", encoding="utf-8") as file:
                file.write(SIGNATURE)
            self._client.log_artifact(self._run_id, f"{scratch}/MLmodel", path)


@contextlib.contextmanager
def _longer_timeout() -> Iterator[None]:
    """MLflow reads the variable before each request."""
    before = os.environ.get(_TIMEOUT_VARIABLE)
    os.environ[_TIMEOUT_VARIABLE] = str(max(_TIMEOUT_S, int(before or 0)))
    try:
        yield
    finally:
        if before is None:
            del os.environ[_TIMEOUT_VARIABLE]
        else:
            os.environ[_TIMEOUT_VARIABLE] = before
