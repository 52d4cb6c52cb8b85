"""Rows of the weights in a model folder, read without loading the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from agentrl_components.errors import ModelError
from agentrl_components.model.load import weight_files


class WeightFiles:
    """The safetensors files of a model folder."""

    def __init__(self, folder: Path) -> None:
        """Raises `ModelError` if a file cannot be read."""
        self._folder = folder
        self._files: dict[str, Any] = {}
        """Open file of each weight."""
        try:
            for path in weight_files(folder):
                file = safe_open(path, framework="pt")
                self._files |= dict.fromkeys(_names(file), file)
        except (OSError, SafetensorError) as error:
            raise ModelError(f"{folder}: weights cannot be read: {error}") from error

    def check(
        self, shapes: Mapping[str, tuple[int, ...]], is_unread: Callable[[str], bool]
    ) -> None:
        """Raise `ModelError` unless the files hold exactly the weights `shapes`. They may also hold
        names that `is_unread` is true for."""
        found = {name: tuple(f.get_slice(name).get_shape()) for name, f in self._files.items()}
        missing = sorted(shapes.keys() - found.keys())
        unknown = sorted(name for name in found.keys() - shapes.keys() if not is_unread(name))
        if missing or unknown:
            raise ModelError(
                f"{self._folder}: weights do not fit config.json; "
                f"missing {missing[:3]}, unknown {unknown[:3]}"
            )
        for name, shape in shapes.items():
            if found[name] != shape:
                raise ModelError(
                    f"{self._folder}: weights do not fit config.json; {name} has shape "
                    f"{list(found[name])} instead of {list(shape)}"
                )

    def rows(self, name: str, rows: slice) -> torch.Tensor:
        """Some rows of a weight."""
        part: torch.Tensor = self._files[name].get_slice(name)[rows.start : rows.stop]
        return part

    def whole(self, name: str) -> torch.Tensor:
        """A weight."""
        found: torch.Tensor = self._files[name].get_tensor(name)
        return found


def _names(file: Any) -> list[str]:
    return list(file.keys())
