"""Checkpoints: everything needed to resume a run, under one prefix of the store.

A checkpoint is a model folder in the layout of transformers (config.json, model.safetensors,
tokenizer), which other tools can load, plus the files that only training needs under `trainer/`.
The manifest with the sizes and hashes of all files is written last: a checkpoint without a manifest
is incomplete and ignored. `tensors` writes and reads the files with tensors.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentrl_components.errors import AbsentError, StoreError
from agentrl_components.storage import keys
from agentrl_components.storage.store import Store

PROGRESS = keys.TRAINER + "progress.json"
_FORMAT = 1
_WRITERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The state of a run between two iterations."""

    iteration: int
    """Number of finished iterations."""
    files: Mapping[str, bytes | Path]
    """Content by file name; a path if the content is too large for memory."""
    progress: Mapping[str, Any]
    """JSON data: random states, cursors, history, position in the schedule."""


class _DamagedError(StoreError):
    """The bytes in the store differ from those that were written."""


def save(store: Store, checkpoint: Checkpoint) -> None:
    """Write `checkpoint`, with its manifest last.

    An incomplete or damaged checkpoint of the same iteration is replaced. An intact one with the
    same content is kept.

    Raises:
        StoreError: there is an intact checkpoint of the iteration with other content.
    """
    prefix = keys.checkpoint(checkpoint.iteration)
    files: dict[str, bytes | Path] = dict(checkpoint.files)
    files[PROGRESS] = json.dumps(checkpoint.progress, sort_keys=True).encode()
    manifest = json.dumps(
        {
            "format": _FORMAT,
            "iteration": checkpoint.iteration,
            "files": {name: _size_and_hash(files[name]) for name in sorted(files)},
        },
        indent=1,
    ).encode()
    if store.exists(prefix + keys.MANIFEST) and _intact(store, checkpoint.iteration):
        store.put(prefix + keys.MANIFEST, manifest)
        return
    _remove(store, checkpoint.iteration)
    with ThreadPoolExecutor(_WRITERS) as writers:
        # Most of the time is spent waiting for I/O, so the files are written in parallel.
        for write in [writers.submit(_put, store, prefix + name, files[name]) for name in files]:
            write.result()
    store.put(prefix + keys.MANIFEST, manifest)


def load(store: Store, iteration: int, spool: Path | None = None) -> Checkpoint:
    """The checkpoint after `iteration` iterations, verified against its hashes.

    If `spool`, an existing folder, is given, the files are streamed into it and `files` contains
    their paths. Otherwise their content is in memory.

    Raises:
        StoreError: a file is missing or damaged; names its key.
    """
    files: dict[str, bytes | Path] = {}
    progress: Mapping[str, Any] = {}
    for name, expected in _manifest(store, iteration).items():
        content = _verified_content(store, iteration, name, expected, spool)
        if name == PROGRESS:
            progress = json.loads(content if isinstance(content, bytes) else content.read_bytes())
        else:
            files[name] = content
    return Checkpoint(iteration=iteration, files=files, progress=progress)


def progress(store: Store, iteration: int) -> Mapping[str, Any]:
    """The progress data of a checkpoint, without its weights. Raises `StoreError` as `load`
    does."""
    content = _verified_content(
        store, iteration, PROGRESS, _manifest(store, iteration)[PROGRESS], None
    )
    assert isinstance(content, bytes)  # because no folder is given
    data: Mapping[str, Any] = json.loads(content)
    return data


def latest(
    store: Store, damaged: Callable[[str], None], spool: Path | None = None
) -> Checkpoint | None:
    """The newest complete and intact checkpoint. None: no checkpoint is complete.

    `damaged` is called with a message for each newer damaged checkpoint.

    Raises:
        StoreError: all complete checkpoints are damaged. Starting again would discard the run.
    """
    last: _DamagedError | None = None
    for iteration in reversed(complete(store)):
        try:
            return load(store, iteration, spool)
        except _DamagedError as error:
            damaged(str(error))
            last = error
    if last is not None:
        raise last
    return None


def complete(store: Store) -> list[int]:
    """The iterations of all checkpoints with a manifest, in ascending order."""
    return sorted(
        keys.checkpoint_number(key)
        for key in store.list(keys.CHECKPOINTS)
        if key.endswith("/" + keys.MANIFEST) and keys.checkpoint_number(key) >= 0
    )


def fetch(store: Store, iteration: int, folder: Path) -> None:
    """Write the model folder of a checkpoint into `folder`, which is created if necessary. Files
    are streamed and verified."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, expected in _manifest(store, iteration).items():
        if not name.startswith(keys.TRAINER):
            _verified_content(store, iteration, name, expected, folder)


def prune(store: Store, keep_last: int, keep: AbstractSet[int] = frozenset()) -> list[int]:
    """Delete all checkpoints except the newest `keep_last` (at least 1) and those in `keep`. Also
    deletes incomplete checkpoints older than the newest. Returns the deleted iterations."""
    existing = complete(store)
    if not existing:
        return []
    kept = set(existing[-max(1, keep_last) :]) | (keep & set(existing))
    numbers = {keys.checkpoint_number(key) for key in store.list(keys.CHECKPOINTS)}
    removed = sorted(number for number in numbers - kept if 0 <= number <= existing[-1])
    for number in removed:
        _remove(store, number)
    return removed


def _put(store: Store, key: str, content: bytes | Path) -> None:
    if isinstance(content, Path):
        store.put_file(key, content)
    else:
        store.put(key, content)


def _remove(store: Store, iteration: int) -> None:
    # The manifest is deleted first: a kill then leaves an incomplete checkpoint, not a damaged one.
    prefix = keys.checkpoint(iteration)
    store.delete(prefix + keys.MANIFEST)
    for key in list(store.list(prefix)):
        store.delete(key)


def _intact(store: Store, iteration: int) -> bool:
    try:
        for name, expected in _manifest(store, iteration).items():
            _verified_content(store, iteration, name, expected, None)
    except _DamagedError:
        return False
    return True


def _manifest(store: Store, iteration: int) -> dict[str, dict[str, Any]]:
    key = keys.checkpoint(iteration, keys.MANIFEST)
    try:
        manifest = json.loads(store.get(key))
        files: dict[str, dict[str, Any]] = manifest["files"]
    except (ValueError, KeyError, TypeError) as error:
        raise _DamagedError(f"{key}: in {store.url}: damaged: not a manifest") from error
    if manifest.get("format") != _FORMAT:
        raise StoreError(f"{key}: in {store.url}: written by another version of AgentRL")
    return files


def _verified_content(
    store: Store, iteration: int, name: str, expected: Mapping[str, Any], folder: Path | None
) -> bytes | Path:
    key = keys.checkpoint(iteration, name)
    content: bytes | Path
    try:
        if folder is None:
            content = store.get(key)
        else:
            content = folder / name
            content.parent.mkdir(parents=True, exist_ok=True)
            store.get_file(key, content)
    except AbsentError as error:
        if not store.exists(keys.checkpoint(iteration, keys.MANIFEST)):
            raise  # not damaged: another process pruned the checkpoint in the meantime
        raise _DamagedError(f"{key}: in {store.url}: damaged: missing") from error
    found = _size_and_hash(content)
    if found != expected:
        raise _DamagedError(
            f"{key}: in {store.url}: damaged: {found['size']} bytes with sha256"
            f" {found['sha256'][:12]}, expected {expected['size']} with {expected['sha256'][:12]}"
        )
    return content


def _size_and_hash(content: bytes | Path) -> dict[str, Any]:
    if isinstance(content, bytes):
        return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    with content.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    return {"size": content.stat().st_size, "sha256": digest.hexdigest()}
