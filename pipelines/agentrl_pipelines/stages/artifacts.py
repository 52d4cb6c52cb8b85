"""Output artifacts of a stage, in the form that the Kubeflow Pipelines launcher collects.

The launcher passes one JSON text to the container, the executor input. It holds the path of each
artifact and the path of the output file. Without an executor input (a stage started by hand), all
artifacts are written to the scratch folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agentrl_components.errors import SpecError

MOUNT_BY_SCHEME = {"gs": "/gcs"}
"""Where the launcher mounts a URL scheme, if that differs from `/<scheme>`."""


class Artifacts:
    """The output artifacts of one stage."""

    def __init__(self, executor_input: str | None, scratch: Path) -> None:
        """Raises `SpecError` if `executor_input` is not the launcher's JSON object."""
        self._scratch = scratch
        self._described: dict[str, dict[str, Any]] = {}
        self._outputs: Mapping[str, Any] = {}
        if executor_input:
            try:
                self._outputs = json.loads(executor_input).get("outputs", {})
            except (json.JSONDecodeError, AttributeError) as error:
                raise SpecError(
                    [f"--executor-input: is not the executor input of KFP: {error}"]
                ) from None

    def path(self, name: str) -> Path:
        """The path of artifact `name`. Creates its folder."""
        requested = self._requested(name)
        if requested is not None:
            url = urlsplit(requested["uri"])
            root = MOUNT_BY_SCHEME.get(url.scheme, f"/{url.scheme}")
            path = Path(f"{root}/{url.netloc}{url.path}")
        else:
            path = self._scratch / "artifacts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def put(self, name: str, content: bytes, metadata: Mapping[str, object] | None = None) -> None:
        """Write artifact `name` and set its metadata."""
        self.path(name).write_bytes(content)
        self.describe(name, metadata or {})

    def describe(self, name: str, metadata: Mapping[str, object]) -> None:
        """Set the metadata of artifact `name`, such as the values of a metrics artifact.

        Without an executor input the metadata is written to `<name>.json`."""
        requested = self._requested(name)
        if requested is not None:
            base = {key: requested[key] for key in ("name", "uri") if key in requested}
            self._described[name] = {"artifacts": [base | {"metadata": dict(metadata)}]}
        elif metadata:
            self.path(f"{name}.json").write_text(json.dumps(dict(metadata), indent=1))

    def close(self) -> None:
        """Write the launcher's output file. Called once, at the end of the stage."""
        output_file = self._outputs.get("outputFile")
        if output_file:
            Path(output_file).parent.mkdir(parents=True, exist_ok=True)
            content = json.dumps({"artifacts": self._described})
            Path(output_file).write_text(content, encoding="utf-8")

    def _requested(self, name: str) -> Mapping[str, Any] | None:
        """The executor input's entry for artifact `name`. None: the pipeline has no such output."""
        entries = self._outputs.get("artifacts", {}).get(name, {}).get("artifacts", [])
        return entries[0] if entries else None
