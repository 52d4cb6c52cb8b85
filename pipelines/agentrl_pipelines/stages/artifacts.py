"""What a stage hands to Kubeflow Pipelines, so that its pages show it.

The launcher tells a container where it looks for files and metadata in one JSON text, the executor
input; by hand there is none, and everything goes into the scratch folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agentrl_components.errors import SpecError

ROOTS = {"gs": "/gcs"}
"""Where the launcher keeps a scheme's files, where it is not called as the scheme is."""


class Artifacts:
    """The outputs of one stage."""

    def __init__(self, executor_input: str | None, scratch: Path) -> None:
        """Raises `SpecError` where the executor input is not the launcher's."""
        self._scratch = scratch
        self._told: dict[str, dict[str, Any]] = {}
        self._outputs: Mapping[str, Any] = {}
        if executor_input:
            try:
                self._outputs = json.loads(executor_input).get("outputs", {})
            except (json.JSONDecodeError, AttributeError) as error:
                raise SpecError([f"--executor-input: is not the launcher's: {error}"]) from None

    def path(self, name: str) -> Path:
        """Where the file of artifact `name` goes; its folder exists."""
        slot = self._slot(name)
        if slot is not None:
            url = urlsplit(slot["uri"])
            root = ROOTS.get(url.scheme, f"/{url.scheme}")
            path = Path(f"{root}/{url.netloc}{url.path}")
        else:
            path = self._scratch / "artifacts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def put(self, name: str, content: bytes, metadata: Mapping[str, object] | None = None) -> None:
        """Write artifact `name`, with what its page shows beside it."""
        self.path(name).write_bytes(content)
        self.describe(name, metadata or {})

    def describe(self, name: str, metadata: Mapping[str, object]) -> None:
        """Only what the page of `name` shows: the numbers of a metrics artifact. By hand they are
        in a file beside it."""
        slot = self._slot(name)
        if slot is not None:
            known = {key: slot[key] for key in ("name", "uri") if key in slot}
            self._told[name] = {"artifacts": [known | {"metadata": dict(metadata)}]}
        elif metadata:
            self.path(f"{name}.json").write_text(json.dumps(dict(metadata), indent=1))

    def _slot(self, name: str) -> Mapping[str, Any] | None:
        """What the launcher says of artifact `name`; None: it does not ask for it."""
        slots = self._outputs.get("artifacts", {}).get(name, {}).get("artifacts", [])
        return slots[0] if slots else None

    def close(self) -> None:
        """Tell the launcher, once, at the end."""
        place = self._outputs.get("outputFile")
        if place:
            Path(place).parent.mkdir(parents=True, exist_ok=True)
            Path(place).write_text(json.dumps({"artifacts": self._told}), encoding="utf-8")
