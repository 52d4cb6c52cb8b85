"""The sizes of a model, whichever implementation computes it.

Torch is imported only for a model that the built-in decoder does not have."""

from __future__ import annotations

from pathlib import Path

from agentrl_components.errors import ArchitectureError, ModelError
from agentrl_components.model.architecture import Architecture, Rope, read
from agentrl_components.spec.fields.model import Implementation, Tiny
from agentrl_envs.needs import install_extras


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
            f"installed; {install_extras('train')}"
        ) from error
    return counted(folder)


def tiny_shape(tiny: Tiny, vocabulary: int) -> Architecture:
    """The architecture that `model.sources.make_tiny` writes."""
    return Architecture(
        family="llama",
        vocabulary=vocabulary,
        hidden=tiny.hidden,
        intermediate=tiny.intermediate,
        layers=tiny.layers,
        heads=tiny.heads,
        kv_heads=tiny.kv_heads,
        head_width=tiny.hidden // tiny.heads,
        eps=1e-6,
        rope=Rope(),
        tied=True,
        qkv_bias=False,
        out_bias=False,
        mlp_bias=False,
        normed=False,
    )
