"""A checkpoint: everything a run needs to go on, under one prefix of the store.

Its root is a model folder as transformers writes it (config.json, model.safetensors, tokenizer), so
that other tools can load it; what only training needs is under `trainer/`. The manifest with sizes
and hashes is written last: without it the checkpoint is not there, and with it every byte can be
checked. `tensors` makes and reads the files that hold tensors.
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
    """Iterations done."""
    files: Mapping[str, bytes | Path]
    """Name in the checkpoint and content; a path for what is too large to be held in memory."""
    progress: Mapping[str, Any]
    """JSON: random states, cursors, history, position in the horizon."""


class _DamagedError(StoreError):
    """The bytes in the store are not those that were written."""


def save(store: Store, checkpoint: Checkpoint) -> None:
    """Write `checkpoint`, manifest last.

    What a killed save left, and a damaged checkpoint of the same iteration, are replaced. An intact
    one that is the same is left alone; an intact one that differs is a `StoreError`.
    """
    prefix = keys.checkpoint(checkpoint.iteration)
    files: dict[str, bytes | Path] = dict(checkpoint.files)
    files[PROGRESS] = json.dumps(checkpoint.progress, sort_keys=True).encode()
    manifest = json.dumps(
        {
            "format": _FORMAT,
            "iteration": checkpoint.iteration,
            "files": {name: _measure(files[name]) for name in sorted(files)},
        },
        indent=1,
    ).encode()
    if store.exists(prefix + keys.MANIFEST) and _intact(store, checkpoint.iteration):
        store.put(prefix + keys.MANIFEST, manifest)
        return
    _remove(store, checkpoint.iteration)
    with ThreadPoolExecutor(_WRITERS) as writers:
        # Waiting for disks and servers is most of the work; together they are waited for once.
        for done in [writers.submit(_put, store, prefix + name, files[name]) for name in files]:
            done.result()
    store.put(prefix + keys.MANIFEST, manifest)


def load(store: Store, iteration: int, spool: Path | None = None) -> Checkpoint:
    """The checkpoint after `iteration` iterations, every byte checked.

    With `spool`, an existing folder, the files are streamed there and `files` holds their paths;
    without, they are held in memory. `StoreError` names the key that is damaged.
    """
    files: dict[str, bytes | Path] = {}
    progress: Mapping[str, Any] = {}
    for name, measure in _manifest(store, iteration).items():
        content = _checked(store, iteration, name, measure, spool)
        if name == PROGRESS:
            progress = json.loads(content if isinstance(content, bytes) else content.read_bytes())
        else:
            files[name] = content
    return Checkpoint(iteration=iteration, files=files, progress=progress)


def progress(store: Store, iteration: int) -> Mapping[str, Any]:
    """What a checkpoint says of the run, without its weights. Raises as `load` does."""
    content = _checked(store, iteration, PROGRESS, _manifest(store, iteration)[PROGRESS], None)
    assert isinstance(content, bytes)  # without a folder
    told: Mapping[str, Any] = json.loads(content)
    return told


def latest(
    store: Store, damaged: Callable[[str], None], spool: Path | None = None
) -> Checkpoint | None:
    """The newest checkpoint that is complete and whole. None: there is no complete one.

    `damaged` is told of each newer one that is not whole. When none of several is, the last error
    is raised: to start afresh would throw the run away.
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
    """Iterations of the checkpoints whose manifest is there, oldest first."""
    return sorted(
        keys.checkpoint_number(key)
        for key in store.list(keys.CHECKPOINTS)
        if key.endswith("/" + keys.MANIFEST) and keys.checkpoint_number(key) >= 0
    )


def fetch(store: Store, iteration: int, folder: Path) -> None:
    """Write the model folder of a checkpoint into `folder`, which is made when it is absent. Every
    byte is checked, none is held whole."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, measure in _manifest(store, iteration).items():
        if not name.startswith(keys.TRAINER):
            _checked(store, iteration, name, measure, folder)


def prune(store: Store, keep_last: int, keep: AbstractSet[int] = frozenset()) -> list[int]:
    """Remove all checkpoints but the newest `keep_last` (at least 1) and those in `keep`, and what
    killed saves left before the newest. Returns the iterations that were removed."""
    there = complete(store)
    if not there:
        return []
    kept = set(there[-max(1, keep_last) :]) | (keep & set(there))
    numbers = {keys.checkpoint_number(key) for key in store.list(keys.CHECKPOINTS)}
    removed = sorted(number for number in numbers - kept if 0 <= number <= there[-1])
    for number in removed:
        _remove(store, number)
    return removed


def _put(store: Store, key: str, content: bytes | Path) -> None:
    if isinstance(content, Path):
        store.put_file(key, content)
    else:
        store.put(key, content)


def _remove(store: Store, iteration: int) -> None:
    # The manifest goes first, so that a kill leaves an incomplete checkpoint and no damaged one.
    prefix = keys.checkpoint(iteration)
    store.delete(prefix + keys.MANIFEST)
    for key in list(store.list(prefix)):
        store.delete(key)


def _intact(store: Store, iteration: int) -> bool:
    try:
        for name, measure in _manifest(store, iteration).items():
            _checked(store, iteration, name, measure, None)
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


def _checked(
    store: Store, iteration: int, name: str, measure: Mapping[str, Any], folder: Path | None
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
            raise  # without its manifest it is not damaged: who keeps the newest removed it
        raise _DamagedError(f"{key}: in {store.url}: damaged: missing") from error
    found = _measure(content)
    if found != measure:
        raise _DamagedError(
            f"{key}: in {store.url}: damaged: {found['size']} bytes with sha256"
            f" {found['sha256'][:12]}, written were {measure['size']} with {measure['sha256'][:12]}"
        )
    return content


def _measure(content: bytes | Path) -> dict[str, Any]:
    if isinstance(content, bytes):
        return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    with content.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    return {"size": content.stat().st_size, "sha256": digest.hexdigest()}
