"""From a manifest's `model` to a folder in transformers' layout, and from there to a decoder.

A checkpoint of ours is such a folder too, so a run's result is the next run's `file://` source.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from agentrl_components.dialogue import Dialogue, Template, dialogue_for, word_tokenizer
from agentrl_components.dialogue.plain import END, PAD, PlainDialogue
from agentrl_components.errors import ModelError
from agentrl_components.model import architecture
from agentrl_components.model.decoder import Decoder
from agentrl_components.schedule.seeds import derive
from agentrl_components.spec import Model

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase as Tokenizer

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PLAIN = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""Tokenizer classes that are wholly described by tokenizer.json."""


def materialise(model: Model, vocabulary: Sequence[str], seed: int, folder: Path) -> Path:
    """A local folder with the model: `folder` for one that is made or fetched, its own for `file://`.

    Raises `ModelError` naming the source when it cannot be had."""
    scheme, _, rest = model.source.partition("://")
    if scheme == "tiny":
        return make_tiny(model, vocabulary, seed, folder)
    if scheme == "file":
        if not (Path(rest) / "config.json").is_file():
            raise ModelError(
                f"{model.source}: no config.json there; give a folder saved by transformers"
            )
        return Path(rest)
    if scheme == "hf":
        return from_hub(model, rest)
    if scheme == "s3":
        return from_bucket(model, folder)
    return from_registry(model, folder)


def make_tiny(model: Model, vocabulary: Sequence[str], seed: int, folder: Path) -> Path:
    """Random weights and a word-level tokenizer of the environments' own vocabulary."""
    tokenizer = word_tokenizer.word_tokenizer(vocabulary)
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
    decoder = Decoder(architecture.read(folder))
    decoder.initialise(torch.Generator().manual_seed(derive(seed, "weights")))
    (folder / WEIGHTS).write_bytes(save(exported(decoder), metadata={"format": "pt"}))
    return folder


def from_hub(model: Model, name: str) -> Path:
    """Download from the Hugging Face hub, or take what its cache holds."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        patterns = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]
        return Path(snapshot_download(name, revision=model.revision, allow_patterns=patterns))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise ModelError(f"{model.source}: cannot be downloaded: {error}") from error


def from_bucket(model: Model, folder: Path) -> Path:
    """Copy a prefix of a bucket; the endpoint and keys are those of the environment."""
    from agentrl_components.spec import Storage
    from agentrl_components.storage.open import open_store

    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    store = open_store(Storage(url=model.source, endpoint=endpoint), folder)
    found = False
    for key in store.list(""):
        target = folder / key
        target.parent.mkdir(parents=True, exist_ok=True)
        store.get_file(key, target)
        found = found or key == "config.json"
    if not found:
        raise ModelError(
            f"{model.source}: no config.json there; give a folder saved by transformers"
        )
    return folder


def from_registry(model: Model, folder: Path) -> Path:
    """Download a version of MLflow's model registry; the server is MLFLOW_TRACKING_URI."""
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


def open_dialogue(folder: Path, template: Template, tiny: bool) -> Dialogue:
    """How the model in `folder` is spoken with. Raises what `open_tokenizer` and `dialogue_for`
    raise."""
    if template in ("auto", "plain"):
        ids = word_tokenizer.read(folder)
        if ids is not None:
            return PlainDialogue(ids)
    return dialogue_for(template, open_tokenizer(folder), tiny)


def open_tokenizer(folder: Path) -> Tokenizer:
    """The model's tokenizer."""
    from transformers import PreTrainedTokenizerFast

    described = folder / "tokenizer_config.json"
    try:
        if (
            described.is_file()
            and json.loads(described.read_text()).get("tokenizer_class") in PLAIN
        ):
            # Asking transformers which class it is would import half of it, in every process.
            plain: Tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
            return plain
        from transformers import AutoTokenizer

        tokenizer: Tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder}: its tokenizer cannot be used: {error}") from error
    return tokenizer


def open_decoder(folder: Path, dtype: torch.dtype, device: torch.device) -> Decoder:
    """The model with its weights. Raises `ModelError` naming what is missing or damaged."""
    with torch.device("meta"):
        decoder = Decoder(architecture.read(folder))
    weights = read_weights(folder)
    try:
        missing, unknown = decoder.load_state_dict(weights, strict=False, assign=True)
    except RuntimeError as error:  # a tensor of another shape than config.json says
        raise ModelError(f"{folder}: weights do not fit config.json: {error}") from error
    if decoder.shape.tied:
        unknown = [name for name in unknown if name != "lm_head.weight"]
    if missing or unknown:
        raise ModelError(
            f"{folder}: weights do not fit config.json; "
            f"missing {missing[:3]}, unknown {unknown[:3]}"
        )
    shape = decoder.shape
    frequencies_D = torch.tensor(shape.rope.frequencies(shape.head_width), device=device)
    decoder.register_buffer("frequencies", frequencies_D, persistent=False)
    # Dropout is for training passes, which say so; sampling and scoring never drop.
    decoder = decoder.to(dtype=dtype, device=device).eval()
    # Not cast: a position times a rounded frequency would be off by whole radians.
    decoder.register_buffer("frequencies", frequencies_D, persistent=False)
    return decoder


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Every tensor of a folder's safetensors files."""
    index = folder / INDEX
    names = [WEIGHTS]
    if index.is_file():
        try:
            names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelError(f"{index}: is no index of safetensors files: {error!r}") from error
    weights: dict[str, Tensor] = {}
    for name in names:
        try:
            weights.update(load_file(folder / name))
        except (OSError, SafetensorError) as error:
            raise ModelError(f"{folder / name}: cannot be read: {error}") from error
    return weights


def exported(decoder: Decoder) -> dict[str, Tensor]:
    """The state dict that transformers loads: adapters merged, float32 or bfloat16 as held."""
    from agentrl_components.model.lora import merged

    return {name: tensor.detach().cpu().contiguous() for name, tensor in merged(decoder).items()}
