"""Writes a rank's part of a checkpoint tensor by tensor.

`HuggingFaceStorageWriter` of torch.distributed.checkpoint first copies all tensors of a rank from
the GPU, and then twice more into the bytes of the file: 36 bytes for each parameter that the rank
trains.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItem
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

TYPES = {torch.int64: "I64", torch.float32: "F32", torch.bfloat16: "BF16"}
"""Names that safetensors gives to types."""


class ShardWriter(HuggingFaceStorageWriter):
    """Writes one file a rank, in the layout of `HuggingFaceStorageWriter`, which
    `HuggingFaceStorageReader` reads. Copies tensors from a GPU one by one."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder), save_distributed=True)
        self._folder = folder
        self.written: list[Path] = []
        """The file that this rank wrote."""

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """As `StorageWriter.write_data`. Equal states give equal bytes."""
        # The largest types first, so that all tensors are aligned.
        items = sorted(plan.items, key=lambda item: (-_type(item).itemsize, item.index.fqn))
        if items:
            number = plan.storage_data["shard_index"]
            path = self._folder / f"shard-{number:05}-model-00001-of-00001.safetensors"
            self.written.append(path)
            with path.open("wb") as file:
                file.write(_header(items))
                for item in items:
                    tensor: Tensor = planner.resolve_data(item)  # type: ignore[assignment]
                    file.write(_bytes(tensor.detach().cpu().contiguous()))
        written: Future[list[WriteResult]] = Future()
        written.set_result(
            [
                WriteResult(index=item.index, size_in_bytes=_size(item), storage_data=None)
                for item in items
            ]
        )
        return written


def _header(items: list[WriteItem]) -> bytes:
    """The header of a safetensors file: types, shapes and places of the tensors, and where a tensor
    begins in that of all ranks."""
    begin = 0
    tensors: dict[str, Any] = {}
    offsets = {}
    for item in items:
        chunk, name = _chunk(item), item.index.fqn
        tensors[name] = {
            "dtype": TYPES[_type(item)],
            "shape": list(chunk.sizes),
            "data_offsets": [begin, begin + _size(item)],
        }
        offsets[name] = {"saved_offsets": list(chunk.offsets)}
        begin += _size(item)
    metadata = {"DCP_SHARDING_INFO": json.dumps(offsets), "DCP_VERSION": "1.0", "format": "pt"}
    text = json.dumps({"__metadata__": metadata, **tensors}, separators=(",", ":")).encode()
    padded = text.ljust(-(-len(text) // 8) * 8)
    return len(padded).to_bytes(8, "little") + padded


def _bytes(tensor: Tensor) -> memoryview:
    """The memory of a tensor."""
    return tensor.reshape(-1).view(torch.uint8).numpy().data


def _chunk(item: WriteItem) -> Any:
    assert item.tensor_data is not None  # checkpoints have tensors only
    return item.tensor_data.chunk


def _type(item: WriteItem) -> torch.dtype:
    assert item.tensor_data is not None
    return item.tensor_data.properties.dtype


def _size(item: WriteItem) -> int:
    return int(_chunk(item).sizes.numel()) * _type(item).itemsize
