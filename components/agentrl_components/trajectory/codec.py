"""Trajectories as bytes: a group at a time, exact, without pickle.

A blob is a safetensors file. Its tensors are the episodes' arrays end to end; everything else is
JSON under one metadata key, so that equal trajectories give equal bytes. The checksum in it covers
every byte of the file, itself counted as zeros.

Legend: N episodes, T tokens of all episodes, S sampled tokens of those episodes that were held to
admissible actions, V choices of all those tokens.

    ids             int32   [T]
    mask            uint8   [T]
    logprobs        float32 [T]
    allowed         int32   [V]
    allowed_ends    int64   [S]   where each token's choices end in `allowed`
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
"""The metadata key, and the version of what is under it."""

UNSIGNED = "0" * 64
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
    """The trajectories as bytes. Equal trajectories give equal bytes, on every machine.

    Raises `TypeError` when an array has a type that its field cannot hold.
    """
    choices = [row for t in trajectories for row in t.allowed or ()]
    tensors = {
        "ids": _joined([t.ids for t in trajectories], "ids"),
        "mask": _joined([t.mask for t in trajectories], "mask"),
        "logprobs": _joined([t.logprobs for t in trajectories], "logprobs"),
        "allowed": _joined(choices, "allowed"),
        "allowed_ends": np.cumsum([len(row) for row in choices], dtype=np.int64),
    }
    told = {"sha256": UNSIGNED, "episodes": [_described(t) for t in trajectories]}
    text = json.dumps(told, separators=(",", ":"))
    unsigned = safetensors.numpy.save(tensors, metadata={FORMAT: text})
    return unsigned.replace(UNSIGNED.encode(), _digest(unsigned), 1)


def decode(data: bytes, key: str = "trajectories") -> tuple[Trajectory, ...]:
    """The trajectories that `encode` was given, exactly.

    Raises `StoreError`, which names `key`, when the bytes are damaged or of another format.
    """
    try:
        size = int.from_bytes(data[:8], "little")
        told = json.loads(json.loads(data[8 : 8 + size])["__metadata__"][FORMAT])
        signed = str(told["sha256"]).encode()
        if _digest(data.replace(signed, UNSIGNED.encode(), 1)) != signed:
            raise StoreError(f"{key}: damaged: the checksum of these trajectories does not match")
        tensors = safetensors.numpy.load(data)
        return tuple(_restored(told["episodes"], tensors))
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(
            f"{key}: not trajectories of the format {FORMAT}, or damaged: {error}"
        ) from error


def _digest(unsigned: bytes) -> bytes:
    return hashlib.sha256(unsigned).hexdigest().encode()


def _joined(rows: Sequence[NDArray[Any]], name: str) -> NDArray[Any]:
    # An empty list has no type of its own.
    return np.concatenate([np.empty(0, TYPES[name]), *rows], dtype=TYPES[name], casting="safe")


def _described(trajectory: Trajectory) -> dict[str, Any]:
    told = {name: getattr(trajectory, name) for name in SCALARS}
    told["tokens"] = len(trajectory.ids)
    told["choices"] = None if trajectory.allowed is None else len(trajectory.allowed)
    told["turns"] = [[getattr(turn, name) for name in TURN] for turn in trajectory.turns]
    return told


def _restored(
    episodes: Sequence[dict[str, Any]], tensors: dict[str, NDArray[Any]]
) -> list[Trajectory]:
    restored, token, choice = [], 0, 0
    starts = np.concatenate([[0], tensors["allowed_ends"]])
    for told in episodes:
        tokens, choices = slice(token, token + told.pop("tokens")), told.pop("choices")
        rows = range(choice, choice + (choices or 0))
        allowed = tuple(tensors["allowed"][starts[row] : starts[row + 1]].copy() for row in rows)
        turns = (dict(zip(TURN, turn, strict=True)) for turn in told.pop("turns"))
        restored.append(
            Trajectory(
                **told | {"ending": Ending(told["ending"])},
                # Copied: what safetensors hands out cannot be written to, and torch minds that.
                ids=tensors["ids"][tokens].copy(),
                mask=tensors["mask"][tokens].astype(np.bool_),
                logprobs=tensors["logprobs"][tokens].copy(),
                allowed=None if choices is None else allowed,
                turns=tuple(Turn(**turn | {"achieved": tuple(turn["achieved"])}) for turn in turns),
            )
        )
        token, choice = tokens.stop, rows.stop
    return restored
