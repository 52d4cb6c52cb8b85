"""Get the model that a manifest's `model.source` names as a folder in transformers' layout."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from safetensors.torch import save

from agentrl_components.dialogue import word_tokenizer
from agentrl_components.dialogue.plain import END, PAD
from agentrl_components.errors import ModelError
from agentrl_components.model.decoder import Decoder
from agentrl_components.model.load import WEIGHTS, export_weights
from agentrl_components.model.shape import read_native
from agentrl_components.schedule.seeds import derive
from agentrl_components.spec import Model, Storage
from agentrl_components.spec.addresses import file_path
from agentrl_components.storage import keys
from agentrl_components.storage.open import open_store

COMMIT = re.compile("[0-9a-f]{40}")
"""A full commit of a repository of the hub."""
FILES = ("*.json", "*.safetensors", "*.jinja", "*.model", "*.txt")
"""Patterns of the files that a model is opened from, and that are downloaded from the hub: no code
and no pickled weights."""
DESCRIBED = "MLmodel"
"""File of a model that MLflow's registry describes; `agentrl envs play` reads it."""


def fetch_model(
    model: Model,
    vocabulary: Sequence[str],
    seed: int,
    folder: Path,
    storage: Storage | None = None,
) -> Path:
    """A local folder with the model.

    `tiny`, `s3://` and `models:/` are written to `folder`; `file://` and `hf://` are returned where
    they are.

    Args:
        vocabulary: words of the environments, for a tiny model.
        seed: of the run, for the weights of a tiny model.
        storage: of the run, whose service and keys an `s3://` source has too.

    Raises:
        ModelError: the source does not exist or cannot be downloaded.
    """
    scheme, _, rest = model.source.partition("://")
    if scheme == "tiny":
        return make_tiny(model, vocabulary, seed, folder)
    if scheme == "file":
        given = file_path(model.source)
        if not (given / "config.json").is_file():
            raise ModelError(
                f"{model.source}: no config.json there; use a folder saved by transformers"
            )
        return given
    if scheme == "hf":
        return download_from_hub(model, rest)
    if scheme == "s3":
        return download_from_bucket(model, storage or Storage(), folder)
    return download_from_registry(model, folder)


def is_model_file(name: str) -> bool:
    """Whether a model is opened from a file of this name, or key in a bucket."""
    return any(fnmatchcase(name, pattern) for pattern in FILES)


def commit_of(model: Model, folder: Path) -> str | None:
    """The commit of an `hf://` source that `fetch_model` returned as `folder`. None: the source is
    another one, or the folder is not in the layout of the hub's cache, `snapshots/<commit>`."""
    in_cache = model.source.startswith("hf://") and folder.parent.name == "snapshots"
    return folder.name if in_cache and COMMIT.fullmatch(folder.name) else None


def make_tiny(model: Model, vocabulary: Sequence[str], seed: int, folder: Path) -> Path:
    """Write a tiny Llama model with random weights and a word-level tokenizer to `folder`. Raises
    `ModelError` for a vocabulary with items that are no words."""
    try:
        tokenizer = word_tokenizer.word_tokenizer(vocabulary)
    except ValueError as error:
        raise ModelError(
            f"model.source: tiny has no tokenizer: {error}; vocabulary() of an environment must "
            "list single words"
        ) from error
    shape = model.tiny
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.hidden // shape.heads,
        "hidden_act": "silu",
        "max_position_embeddings": model.context,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": tokenizer.token_to_id(END),
        "pad_token_id": tokenizer.token_to_id(PAD),
        "dtype": "float32",
    }
    folder.mkdir(parents=True, exist_ok=True)
    word_tokenizer.save(tokenizer, folder)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    decoder = Decoder(read_native(folder))
    decoder.initialise(torch.Generator().manual_seed(derive(seed, "weights")))
    (folder / WEIGHTS).write_bytes(save(export_weights(decoder), metadata={"format": "pt"}))
    return folder


def download_from_hub(model: Model, name: str) -> Path:
    """Download from the Hugging Face hub, unless it is cached."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, revision=model.revision, allow_patterns=list(FILES)))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        where = f" at {model.revision}" if model.revision is not None else ""
        raise ModelError(f"{model.source}{where}: cannot be downloaded: {error}") from error


def download_from_bucket(model: Model, storage: Storage, folder: Path) -> Path:
    """Copy the files of a model below a prefix of a bucket to `folder`. Endpoint, region and keys
    are those of `storage`; without either of the first two, AWS_ENDPOINT_URL is the endpoint."""
    there: dict[str, str | None] = {"url": model.source}
    if storage.endpoint is None and storage.region is None:
        there |= {"endpoint": os.environ.get("AWS_ENDPOINT_URL")}
    store = open_store(storage.model_copy(update=there), folder)
    found = False
    for key in store.list(""):
        if key.startswith(keys.TRAINER):
            continue  # of a run's checkpoint: three times the size of the model, and not needed
        if key != DESCRIBED and not is_model_file(key):
            continue
        target = folder / key
        target.parent.mkdir(parents=True, exist_ok=True)
        store.get_file(key, target)
        found = found or key == "config.json"
    if not found:
        raise ModelError(
            f"{model.source}: no config.json there; use a folder saved by transformers"
        )
    return folder


def download_from_registry(model: Model, folder: Path) -> Path:
    """Download a version from MLflow's model registry to `folder`. Its address is in the variable
    MLFLOW_TRACKING_URI, or MLFLOW_REGISTRY_URI. Raises `ModelError` without either."""
    if not any(map(os.environ.get, ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI"))):
        # MLflow would create a database in the current folder, and look there.
        raise ModelError(
            f"{model.source}: needs the address of the registry in MLFLOW_TRACKING_URI; for a "
            "model of a run on this machine, set it to sqlite:/// and the absolute path of "
            "mlflow.db in the run's folder, such as sqlite:////home/me/runs/NAME/mlflow.db"
        )
    from mlflow.artifacts import download_artifacts
    from mlflow.exceptions import MlflowException

    folder.mkdir(parents=True, exist_ok=True)
    try:
        path = Path(download_artifacts(artifact_uri=model.source, dst_path=str(folder)))
    except MlflowException as error:
        raise ModelError(f"{model.source}: {error}") from error
    configs = sorted(path.rglob("config.json"))
    if not configs:
        raise ModelError(f"{model.source}: no config.json in that version")
    return configs[0].parent
