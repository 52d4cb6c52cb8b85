"""The model folder of an actor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from agentrl_components.model.sources import fetch_model
from agentrl_components.spec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFolder:
    """Where the driver has the model, and what an actor on another machine fetches it from."""

    path: Path
    vocabulary: Sequence[str]
    """Words of the environments, for a tiny model."""

    def open(self, spec: RunSpec) -> Path:
        """The model folder on this machine."""
        if (self.path / "config.json").is_file():
            return self.path
        return fetch_model(spec.model, self.vocabulary, spec.seed, Path(mkdtemp(prefix="agentrl-")))
