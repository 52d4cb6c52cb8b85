"""A run's folder, as the commands that look back at a run find it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from agentrl_components.errors import SpecError, StoreError
from agentrl_components.spec import AgentRLRun
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore, open_store
from agentrl_components.storage.store import Store


def open_run(root: Path) -> tuple[Store, AgentRLRun]:
    """The store and the manifest of the run in `root`.

    The manifest is in `root/store`, or, where the run keeps its store elsewhere, in `root` itself.
    Raises `SpecError` where there is no run, `StoreError` where what there is cannot be read."""
    if not root.is_dir():
        raise SpecError([f"--root: {root}: there is no such folder; name the folder of a run"])
    beside, inside = root / keys.RUN, root / "store" / keys.RUN
    if beside.is_file():
        run = _manifest(beside.read_bytes(), str(beside))
        return open_store(run.spec.storage, root / "store"), run
    if not inside.is_file():
        raise SpecError([f"--root: {root}: no run was started here; name the folder of a run"])
    store = DirectoryStore(root / "store")
    return store, _manifest(store.get(keys.RUN), str(inside))


@contextmanager
def writing(root: Path) -> Iterator[None]:
    """What goes wrong with the run's folder, as a `StoreError`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        fix = "give a folder that can be written to"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            fix = "free some space and run the same command again"
        raise StoreError(f"{error.filename or root}: {reason}; {fix}") from error


def _manifest(data: bytes, where: str) -> AgentRLRun:
    # The rules between fields are not asked: the run was started, and they may have grown since.
    try:
        return AgentRLRun.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise StoreError(f"{where}: damaged: not a run's manifest: {first['msg']}") from error
