"""The sizes of a model from its config.json, whichever implementation computes it.

Torch is imported only for a model that the built-in decoder does not have."""

from __future__ import annotations

from pathlib import Path

from agentrl_components.errors import ArchitectureError, ModelError
from agentrl_components.model.architecture import Architecture, read
from agentrl_components.spec.fields.model import Implementation


def read_shape(folder: Path, implementation: Implementation) -> Architecture:
    """The architecture of the built-in decoder, or the sizes that transformers states.

    Raises:
        ArchitectureError: it is not a causal language model, or not one of this implementation.
        ModelError: config.json cannot be read, or transformers is needed and not installed.
    """
    if implementation != "transformers":
        try:
            return read(folder)
        except ArchitectureError:
            if implementation == "native":
                raise
    try:
        from agentrl_components.model.foreign import counted
    except ImportError as error:
        raise ModelError(
            f"{folder / 'config.json'}: only transformers has this architecture, and it is not "
            "installed; install agentrl[train]"
        ) from error
    return counted(folder)
