"""The architecture of a manifest's model, without its weights."""

from __future__ import annotations

from pathlib import Path

from agentrl_components.errors import ModelError
from agentrl_components.model.architecture import Architecture
from agentrl_components.model.shape import read_shape, tiny_shape
from agentrl_components.spec import Model
from agentrl_components.spec.addresses import file_path
from agentrl_envs.needs import install_extras

TINY_VOCABULARY = 512
"""Vocabulary size that is assumed for a `tiny` model. The real one depends on the environments."""


def shape_of(model: Model, config: Path | None = None) -> Architecture:
    """The architecture in the folder `config`, or that of `model.source`. Of an `hf://` source
    only config.json is downloaded.

    Raises:
        ModelError: it cannot be read or downloaded, or the model is not supported.
    """
    scheme, _, rest = model.source.partition("://")
    if config is not None:
        return read_shape(_with_config(config, "--config"), model.implementation)
    if scheme == "tiny":
        return tiny_shape(model.tiny, TINY_VOCABULARY)
    if scheme == "file":
        other = ", or give a folder that has it with --config"
        folder = _with_config(file_path(model.source), "spec.model.source", other)
        return read_shape(folder, model.implementation)
    if scheme == "hf":
        return read_shape(_download(model, rest), model.implementation)
    raise ModelError(
        f"{model.source}: its config.json is not read from there; give a folder that has it with "
        "--config"
    )


def _with_config(folder: Path, field: str, other: str = "") -> Path:
    """`folder`, which `field` names. Raises `ModelError` if it has no config.json."""
    if (folder / "config.json").is_file():
        return folder
    raise ModelError(f"{field}: {folder} has no config.json; correct the path{other}")


def _download(model: Model, name: str) -> Path:
    """The folder with config.json from the hub, or from its cache if the hub cannot be reached."""
    try:
        from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url
        from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]
    except ImportError as error:
        raise ModelError(
            f"{model.source}: huggingface_hub is not installed; {install_extras('train')}, or give "
            "a folder with its config.json with --config"
        ) from error
    failed: Exception | None = None
    try:
        # One request, because a download repeats its own for half a minute, with a notice each.
        get_hf_file_metadata(hf_hub_url(name, "config.json", revision=model.revision))
    except (HTTPError, OSError, ValueError) as error:
        failed = error
    try:
        cached = failed is not None
        return Path(
            hf_hub_download(name, "config.json", revision=model.revision, local_files_only=cached)
        ).parent
    except (HTTPError, OSError, ValueError) as error:
        raise ModelError(
            f"{model.source}: config.json cannot be downloaded; give a folder that has it with "
            f"--config: {failed or error}"
        ) from error
