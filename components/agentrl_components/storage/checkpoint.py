"""Checkpoints: everything needed to resume a run, under one prefix of the store.

A checkpoint is a model folder in the layout of transformers (config.json, model.safetensors,
tokenizer), which other tools can load, plus the files that only training needs under `trainer/`.
The manifest with the sizes and hashes of all files is written last: a checkpoint without a manifest
is incomplete and ignored. `tensors` writes and reads the files with tensors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentrl_components.errors import AbsentError, StoreError
from agentrl_components.storage import files as stored_files
from agentrl_components.storage import keys
from agentrl_components.storage.files import DamagedError, Digest, Files, StoredFile
from agentrl_components.storage.scratch import ScratchFolder
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
    left: Mapping[str, StoredFile] = field(default_factory=dict)
    """Files that were left in the store, by name."""


def save(
    store: Store,
    checkpoint: Checkpoint,
    written_elsewhere: Callable[[], Mapping[str, StoredFile]] = dict,
) -> None:
    """Write `checkpoint`, with its manifest last.

    An incomplete or damaged checkpoint of the same iteration is replaced. An intact one with the
    same content is kept.

    Args:
        written_elsewhere: has other processes write further files under the checkpoint's prefix,
            and returns them by name. Called when that can begin; files are written meanwhile.

    Raises:
        StoreError: there is an intact checkpoint of the iteration with other content.
    """
    prefix = keys.checkpoint(checkpoint.iteration)
    kept = store.exists(prefix + keys.MANIFEST) and _intact(store, checkpoint.iteration)
    if not kept:
        _remove(store, checkpoint.iteration)
    files: Files = dict(checkpoint.files)
    files[PROGRESS] = json.dumps(checkpoint.progress, sort_keys=True).encode()

    def write(name: str) -> Digest:
        if kept:
            return Digest.of(files[name])
        return stored_files.put(store, prefix + name, files[name]).digest

    with ThreadPoolExecutor(_WRITERS) as writers:
        # Most of the time is spent waiting for I/O, so the files are written in parallel.
        digests = {name: writers.submit(write, name) for name in files}
        stored = {name: file.digest for name, file in written_elsewhere().items()}
        stored |= {name: digest.result() for name, digest in digests.items()}
    manifest = {
        "format": _FORMAT,
        "iteration": checkpoint.iteration,
        "files": {name: stored[name].as_json() for name in sorted(stored)},
    }
    store.put(prefix + keys.MANIFEST, json.dumps(manifest, indent=1).encode())


def load(
    store: Store,
    iteration: int,
    spool: Path | None = None,
    leave: Callable[[str], bool] = lambda _: False,
) -> Checkpoint:
    """The checkpoint after `iteration` iterations, verified against its hashes.

    If `spool`, an existing folder, is given, the files are streamed into it and `files` contains
    their paths. Otherwise their content is in memory. Files whose name `leave` accepts are neither
    read nor verified.

    Raises:
        StoreError: a file is missing or damaged; names its key.
    """
    files: Files = {}
    left: dict[str, StoredFile] = {}
    progress: Mapping[str, Any] = {}
    for name, expected in _manifest(store, iteration).items():
        if leave(name):
            left[name] = expected
            continue
        content = _verified_content(store, iteration, name, expected, spool)
        if name == PROGRESS:
            progress = json.loads(content if isinstance(content, bytes) else content.read_bytes())
        else:
            files[name] = content
    return Checkpoint(iteration=iteration, files=files, progress=progress, left=left)


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
    store: Store,
    damaged: Callable[[str], None],
    spool: Path | None = None,
    leave: Callable[[str], bool] = lambda _: False,
    use: Callable[[Checkpoint], object] = lambda _: None,
) -> Checkpoint | None:
    """The newest complete and intact checkpoint, as `load` returns it. None: no checkpoint is
    complete.

    Args:
        damaged: called with a message for each newer damaged checkpoint.
        use: called with each checkpoint until it raises no `DamagedError`, as it may because of
            files that were left in the store.

    Raises:
        StoreError: all complete checkpoints are damaged. Starting again would discard the run.
    """
    last: DamagedError | None = None
    for iteration in reversed(complete(store)):
        try:
            found = load(store, iteration, spool, leave)
            use(found)
            return found
        except DamagedError as error:
            damaged(str(error))
            last = error
    if last is not None:
        raise last
    return None


def complete(store: Store, newest: int | None = None) -> list[int]:
    """The iterations of all checkpoints with a manifest, in ascending order.

    `newest` is the iteration of the checkpoint that was saved or loaded last. Later ones do not
    count: they were damaged when the run resumed from an earlier one, and its repeated iterations
    may have other results than theirs. None: all count.
    """
    found = {
        keys.checkpoint_number(key)
        for key in store.list(keys.CHECKPOINTS)
        if key.endswith("/" + keys.MANIFEST)
    }
    return sorted(n for n in found if n >= 0 and (newest is None or n <= newest))


def fetch(store: Store, iteration: int, folder: Path) -> None:
    """Write the model folder of a checkpoint into `folder`, which is created if necessary. Files
    are streamed and verified."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, expected in _manifest(store, iteration).items():
        if not name.startswith(keys.TRAINER):
            _verified_content(store, iteration, name, expected, folder)


def prune(
    store: Store, keep_last: int, keep: AbstractSet[int] = frozenset(), *, newest: int
) -> list[int]:
    """Delete all checkpoints except the newest `keep_last` (at least 1) and those in `keep`. Also
    deletes incomplete checkpoints older than the newest. Returns the deleted iterations. Those
    later than `newest`, which do not count (`complete`), are deleted.
    """
    complete_ones = complete(store)
    existing = [number for number in complete_ones if number <= newest]
    kept = set(existing[-max(1, keep_last) :]) | (keep & set(existing))
    numbers = {keys.checkpoint_number(key) for key in store.list(keys.CHECKPOINTS)}
    older = {number for number in numbers if existing and 0 <= number <= existing[-1]}
    removed = sorted((older | set(complete_ones)) - kept)
    for number in removed:
        _remove(store, number)
    return removed


def _remove(store: Store, iteration: int) -> None:
    # The manifest is deleted first: a kill then leaves an incomplete checkpoint, not a damaged one.
    prefix = keys.checkpoint(iteration)
    store.delete(prefix + keys.MANIFEST)
    for key in list(store.list(prefix)):
        store.delete(key)


def _intact(store: Store, iteration: int) -> bool:
    with ScratchFolder() as folder:
        try:
            for name, expected in _manifest(store, iteration).items():
                content = _verified_content(store, iteration, name, expected, folder)
                assert isinstance(content, Path)  # in the folder
                content.unlink()
        except DamagedError:
            return False
    return True


def _manifest(store: Store, iteration: int) -> dict[str, StoredFile]:
    """The files of a checkpoint by name."""
    key = keys.checkpoint(iteration, keys.MANIFEST)
    try:
        manifest = json.loads(store.get(key))
        # First of all, because the files may be listed in another form there.
        if manifest["format"] != _FORMAT:
            raise StoreError(f"{key}: in {store.url}: written by another version of AgentRL")
        return {
            name: StoredFile(key=keys.checkpoint(iteration, name), digest=Digest(**about))
            for name, about in manifest["files"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(f"{key}: in {store.url}: damaged: not a manifest") from error


def _verified_content(
    store: Store, iteration: int, name: str, expected: StoredFile, folder: Path | None
) -> bytes | Path:
    try:
        if folder is None:
            content = store.get(expected.key)
            stored_files.verify(store, expected, content)
            return content
        stored_files.fetch(store, expected, folder / name)
        return folder / name
    except AbsentError as error:
        if not store.exists(keys.checkpoint(iteration, keys.MANIFEST)):
            raise  # not damaged: another process pruned the checkpoint in the meantime
        raise DamagedError(f"{expected.key}: in {store.url}: damaged: missing") from error
