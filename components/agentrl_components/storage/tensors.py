"""Tensors as the files of a checkpoint, in safetensors, and back.

Small states become bytes; with a `spool` folder they are written there and stay paths, so that a
large model is never held a second time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import safe_open
from safetensors.torch import load as load_bytes
from safetensors.torch import save as save_bytes
from safetensors.torch import save_file

from agentrl_components.storage.keys import TRAINER

Files = dict[str, bytes | Path]

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
_ALIASES = "aliases"


def pack_model(
    state: Mapping[str, torch.Tensor],
    config: bytes,
    tokenizer: Mapping[str, bytes],
    spool: Path | None = None,
) -> Files:
    """A model folder that `AutoModelForCausalLM.from_pretrained` loads.

    `state` is the model's state dict under transformers' parameter names, `config` its config.json
    and `tokenizer` the tokenizer's files by name.
    """
    return {CONFIG: config, **tokenizer, WEIGHTS: pack(state, WEIGHTS, spool)}


def pack(state: Mapping[str, torch.Tensor], name: str, spool: Path | None = None) -> bytes | Path:
    """One safetensors file. Tensors that share their memory (tied embeddings) are written once, and
    `unpack` gives them all back."""
    first: dict[tuple[int, torch.Size, tuple[int, ...]], str] = {}
    kept: dict[str, torch.Tensor] = {}
    aliases: dict[str, str] = {}
    for key, tensor in state.items():
        place = (tensor.data_ptr(), tensor.shape, tensor.stride())
        original = first.setdefault(place, key) if tensor.numel() else key
        if original == key:
            kept[key] = tensor.detach().cpu().contiguous()
        else:
            aliases[key] = original
    # transformers refuses a file without this format
    metadata = {"format": "pt", _ALIASES: json.dumps(aliases, sort_keys=True)}
    if spool is None:
        content = save_bytes(kept, metadata)
        size, header = _ordered(BytesIO(content[: _header_end(content[:8])]))
        return content[:8] + header + content[8 + size :]
    path = spool / name
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(kept, path, metadata)
    with path.open("r+b") as file:
        _, header = _ordered(file)
        file.seek(8)
        file.write(header)
    return path


def unpack(content: bytes | Path) -> dict[str, torch.Tensor]:
    """The state dict that `pack` was given, on the CPU."""
    if isinstance(content, bytes):
        state = load_bytes(content)
        header = json.loads(content[8 : _header_end(content[:8])])
        metadata = header.get("__metadata__", {})
    else:
        with safe_open(content, framework="pt") as file:
            metadata = file.metadata() or {}
            state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118, no mapping
    for alias, original in json.loads(metadata.get(_ALIASES, "{}")).items():
        state[alias] = state[original]
    return state


def pack_optimizer(
    state: Mapping[str, Any], name: str = "optimizer", spool: Path | None = None
) -> Files:
    """`state_dict()` of a torch optimizer: its tensors (AdamW: exp_avg, exp_avg_sq, step) as
    safetensors, the rest (parameter groups, plain numbers) as JSON."""
    tensors: dict[str, torch.Tensor] = {}
    numbers: dict[str, Any] = {}
    for parameter, slots in state["state"].items():
        for slot, value in slots.items():
            key = f"{parameter}.{slot}"
            if isinstance(value, torch.Tensor):
                tensors[key] = value
            else:
                numbers[key] = value
    plain = {"param_groups": state["param_groups"], "numbers": numbers}
    stem = TRAINER + name
    return {
        f"{stem}.safetensors": pack(tensors, f"{stem}.safetensors", spool),
        f"{stem}.json": json.dumps(plain, sort_keys=True).encode(),
    }


def unpack_optimizer(files: Mapping[str, bytes | Path], name: str = "optimizer") -> dict[str, Any]:
    """What `load_state_dict` of the optimizer takes."""
    stem = TRAINER + name
    content = files[f"{stem}.json"]
    plain = json.loads(content if isinstance(content, bytes) else content.read_bytes())
    values: dict[str, Any] = {**unpack(files[f"{stem}.safetensors"]), **plain["numbers"]}
    state: dict[int, dict[str, Any]] = {}
    for key, value in values.items():
        parameter, slot = key.split(".", 1)
        state.setdefault(int(parameter), {})[slot] = value
    return {"state": state, "param_groups": plain["param_groups"]}


def _header_end(first: bytes) -> int:
    return 8 + int.from_bytes(first, "little")


def _ordered(file: BinaryIO) -> tuple[int, bytes]:
    """The header's size and the header, with its metadata in order: the library writes them in a
    random one, and the same state must be the same bytes."""
    size = _header_end(file.read(8)) - 8
    header = json.loads(file.read(size))
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return size, text.ljust(size)
