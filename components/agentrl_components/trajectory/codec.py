"""Lossless serialization of trajectories, without pickle.

The format is a safetensors file. Its tensors are the concatenated arrays of the episodes; all other
fields are JSON under one metadata key, so that equal trajectories give equal bytes. The checksum
covers the whole file, with its own digits replaced by zeros.

Legend: T tokens of all episodes, S sampled tokens of the episodes with admissible actions, V
allowed ids of all these tokens.

    ids             int32   [T]
    mask            uint8   [T]
    logprobs        float32 [T]
    allowed         int32   [V]
    allowed_ends    int64   [S]   end of each token's ids in `allowed`
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from agentrl_components.errors import StoreError
from agentrl_components.trajectory.record import Ending, Trajectory, Turn

FORMAT = "agentrl.trajectories/1"
"""The metadata key, which includes the version of the format."""

ZERO_DIGEST = "0" * 64
TYPES: dict[str, np.dtype[Any]] = {
    "ids": np.dtype(np.int32),
    "mask": np.dtype(np.uint8),
    "logprobs": np.dtype(np.float32),
    "allowed": np.dtype(np.int32),
    "allowed_ends": np.dtype(np.int64),
}
ARRAYS = ("ids", "mask", "logprobs", "allowed", "turns")
SCALARS = tuple(f.name for f in dataclasses.fields(Trajectory) if f.name not in ARRAYS)
TURN = tuple(f.name for f in dataclasses.fields(Turn))


def encode(trajectories: Sequence[Trajectory]) -> bytes:
    """Serialize trajectories. Equal trajectories give equal bytes on every machine.

    Raises `TypeError` if the type of an array does not fit its field.
    """
    choices = [row for t in trajectories for row in t.allowed or ()]
    tensors = {
        "ids": _concatenated([t.ids for t in trajectories], "ids"),
        "mask": _concatenated([t.mask for t in trajectories], "mask"),
        "logprobs": _concatenated([t.logprobs for t in trajectories], "logprobs"),
        "allowed": _concatenated(choices, "allowed"),
        "allowed_ends": np.cumsum([len(row) for row in choices], dtype=np.int64),
    }
    metadata = {"sha256": ZERO_DIGEST, "episodes": [_fields(t) for t in trajectories]}
    text = json.dumps(metadata, separators=(",", ":"))
    content = safetensors.numpy.save(tensors, metadata={FORMAT: text})
    return content.replace(ZERO_DIGEST.encode(), _digest(content), 1)


def decode(data: bytes, key: str = "trajectories") -> tuple[Trajectory, ...]:
    """Deserialize trajectories: exactly those that were given to `encode`.

    Raises `StoreError`, which names `key`, if the bytes are damaged or of another format.
    """
    try:
        size = int.from_bytes(data[:8], "little")
        metadata = json.loads(json.loads(data[8 : 8 + size])["__metadata__"][FORMAT])
        digest = str(metadata["sha256"]).encode()
        if _digest(data.replace(digest, ZERO_DIGEST.encode(), 1)) != digest:
            raise StoreError(f"{key}: damaged: the checksum of the trajectories does not match")
        tensors = safetensors.numpy.load(data)
        return tuple(_restored(metadata["episodes"], tensors))
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(
            f"{key}: not trajectories of the format {FORMAT}, or damaged: {error}"
        ) from error


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def _concatenated(rows: Sequence[NDArray[Any]], name: str) -> NDArray[Any]:
    # The empty array gives the result its type if there are no rows.
    return np.concatenate([np.empty(0, TYPES[name]), *rows], dtype=TYPES[name], casting="safe")


def _fields(trajectory: Trajectory) -> dict[str, Any]:
    fields = {name: getattr(trajectory, name) for name in SCALARS}
    fields["tokens"] = len(trajectory.ids)
    fields["choices"] = None if trajectory.allowed is None else len(trajectory.allowed)
    fields["turns"] = [[getattr(turn, name) for name in TURN] for turn in trajectory.turns]
    return fields


def _restored(
    episodes: Sequence[dict[str, Any]], tensors: dict[str, NDArray[Any]]
) -> list[Trajectory]:
    restored, token, choice = [], 0, 0
    starts = np.concatenate([[0], tensors["allowed_ends"]])
    for fields in episodes:
        tokens, choices = slice(token, token + fields.pop("tokens")), fields.pop("choices")
        rows = range(choice, choice + (choices or 0))
        allowed = tuple(tensors["allowed"][starts[row] : starts[row + 1]].copy() for row in rows)
        # Turns of earlier versions lack the last fields, which have defaults.
        turns = (dict(zip(TURN, turn, strict=False)) for turn in fields.pop("turns"))
        restored.append(
            Trajectory(
                **fields | {"ending": Ending(fields["ending"])},
                # Copied, because arrays from safetensors are read-only and torch warns about them.
                ids=tensors["ids"][tokens].copy(),
                mask=tensors["mask"][tokens].astype(np.bool_),
                logprobs=tensors["logprobs"][tokens].copy(),
                allowed=None if choices is None else allowed,
                turns=tuple(_turn(turn) for turn in turns),
            )
        )
        token, choice = tokens.stop, rows.stop
    return restored


def _turn(fields: dict[str, Any]) -> Turn:
    """A turn, whose tuples JSON has stored as lists."""
    tuples = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    return Turn(**fields | tuples)
