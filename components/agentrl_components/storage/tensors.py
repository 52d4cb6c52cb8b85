"""Conversion between tensors and the safetensors files of a checkpoint.

Without a `spool` folder, files are bytes in memory. With one, they are written there and returned
as paths, so that a large model is not in memory twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import safe_open
from safetensors.torch import load as load_bytes
from safetensors.torch import save as save_bytes
from safetensors.torch import save_file

from agentrl_components.storage.files import DamagedError, Files, StoredFile
from agentrl_components.storage.keys import TRAINER
from agentrl_components.storage.store import Store

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
WEIGHT_FILE_BYTES = 2 << 30
"""Largest file of weights. One file is in memory while it is written."""
HEADER_BYTES = 1 << 20
"""What is read of a file at first to get its header."""
_ALIASES = "aliases"


def pack(state: Mapping[str, torch.Tensor], name: str, spool: Path | None = None) -> bytes | Path:
    """One safetensors file. Tensors that share memory (tied embeddings) are written once; `unpack`
    restores all of them."""
    first: dict[tuple[int, torch.Size, tuple[int, ...]], str] = {}
    unique: dict[str, torch.Tensor] = {}
    aliases: dict[str, str] = {}
    for key, tensor in state.items():
        storage = (tensor.data_ptr(), tensor.shape, tensor.stride())
        original = first.setdefault(storage, key) if tensor.numel() else key
        if original == key:
            unique[key] = tensor.detach().cpu().contiguous()
        else:
            aliases[key] = original
    # transformers rejects files without the format entry
    metadata = {"format": "pt", _ALIASES: json.dumps(aliases, sort_keys=True)}
    if spool is None:
        content = save_bytes(unique, metadata)
        size, header = _sorted_header(BytesIO(content[: _header_end(content[:8])]))
        return content[:8] + header + content[8 + size :]
    path = spool / name
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(unique, path, metadata)
    _sort_metadata(path)
    return path


def pack_weights(
    weights: Iterable[tuple[str, torch.Tensor]], spool: Path, limit: int = WEIGHT_FILE_BYTES
) -> Files:
    """The files of weights that arrive one after another, as transformers names them: one file, or
    several of at most `limit` bytes (a larger weight has one of its own) and their index."""
    paths: list[Path] = []
    places: dict[str, int] = {}
    some: dict[str, torch.Tensor] = {}
    total = size = 0

    def write() -> None:
        nonlocal some, size
        places.update(dict.fromkeys(some, len(paths)))
        path = pack(some, f"part-{len(paths)}.safetensors", spool)
        assert isinstance(path, Path)  # in the folder
        paths.append(path)
        some, size = {}, 0

    for name, weight in weights:
        if some and size + weight.nbytes > limit:
            write()
        some[name] = weight
        size, total = size + weight.nbytes, total + weight.nbytes
    write()
    if len(paths) == 1:
        return {WEIGHTS: paths[0]}
    names = [f"model-{n + 1:05}-of-{len(paths):05}.safetensors" for n in range(len(paths))]
    index = {
        "metadata": {"total_size": total},
        "weight_map": {name: names[place] for name, place in sorted(places.items())},
    }
    files: Files = dict(zip(names, paths, strict=True))
    return files | {INDEX: json.dumps(index, indent=1).encode()}


def fetch_header(store: Store, stored: StoredFile, path: Path) -> None:
    """Create a safetensors file of the stored one's size that has its header, and holes in the
    place of its tensors. Its folder is created if necessary.

    Raises:
        DamagedError: the stored file has no header.
        AbsentError: it is not there.
    """
    start = store.get_start(stored.key, HEADER_BYTES)
    end = _header_end(start[:8])
    if end > len(start):
        start = store.get_start(stored.key, min(end, stored.digest.size))
    if not 8 < end <= len(start):
        raise DamagedError(f"{stored.key}: in {store.url}: damaged: no header of safetensors")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(start[:end])
        file.truncate(stored.digest.size)


def _sort_metadata(path: Path) -> None:
    """Sort the metadata of a safetensors file, so that equal states give equal bytes."""
    with path.open("r+b") as file:
        _, header = _sorted_header(file)
        file.seek(8)
        file.write(header)


def unpack(content: bytes | Path) -> dict[str, torch.Tensor]:
    """The state dict that was given to `pack`, on the CPU."""
    if isinstance(content, bytes):
        state = load_bytes(content)
        header = json.loads(content[8 : _header_end(content[:8])])
        metadata = header.get("__metadata__", {})
    else:
        with safe_open(content, framework="pt") as file:
            metadata = file.metadata() or {}
            # Cloned, because the tensors of the file are mapped to it.
            state = {key: file.get_tensor(key).clone() for key in file.keys()}  # noqa: SIM118, not a mapping
    for alias, original in json.loads(metadata.get(_ALIASES, "{}")).items():
        state[alias] = state[original]
    return state


def pack_optimizer(
    state: Mapping[str, Any], name: str = "optimizer", spool: Path | None = None
) -> Files:
    """The files of a torch optimizer's `state_dict()`: tensors (AdamW: exp_avg, exp_avg_sq, step)
    as safetensors, parameter groups and plain numbers as JSON."""
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
    """The argument of the optimizer's `load_state_dict`."""
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


def _sorted_header(file: BinaryIO) -> tuple[int, bytes]:
    """(size of the header, the header with sorted metadata). The library writes metadata in random
    order, but equal states must give equal bytes."""
    size = _header_end(file.read(8)) - 8
    header = json.loads(file.read(size))
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return size, text.ljust(size)
