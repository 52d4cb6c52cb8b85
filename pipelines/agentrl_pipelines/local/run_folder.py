"""The folder of a local run: opened by the commands that read it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from agentrl_components.errors import SpecError, StoreError
from agentrl_components.spec import AgentRLRun
from agentrl_components.spec.addresses import file_path
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore, open_store
from agentrl_components.storage.store import Store


def open_run(root: Path) -> tuple[Store, AgentRLRun]:
    """The store and the manifest of the run in `root`.

    The manifest is in `root/store`; if `spec.storage` names another store, a copy is in `root`.

    Raises:
        SpecError: there is no run in `root`.
        StoreError: the manifest is damaged or cannot be read.
    """
    if not root.is_dir():
        raise SpecError([f"--root: {root}: no such folder; give the folder of a run"])
    copy, inside = root / keys.RUN, root / "store" / keys.RUN
    if copy.is_file():
        run = _manifest(copy.read_bytes(), str(copy))
        return open_store(run.spec.storage, root / "store"), run
    if not inside.is_file():
        raise SpecError([f"--root: {root}: holds no run; give the folder of a run"])
    store = DirectoryStore(root / "store")
    return store, _manifest(store.get(keys.RUN), str(inside))


def check_store(root: Path, url: str | None) -> None:
    """Check that a run whose `spec.storage.url` is `url` may work in `root`: that the folder holds
    no run, or one with the same store. What reads the folder would else take one run for the other.

    Raises:
        SpecError: the run in `root` has another store.
        StoreError: the manifest of that run is damaged.
    """
    began = None
    copy = root / keys.RUN
    if copy.is_file():
        began = _manifest(copy.read_bytes(), str(copy)).spec.storage.url
    elif not (root / "store" / keys.RUN).is_file():
        return
    if _address(began, root) != _address(url, root):
        raise SpecError(
            [
                f"spec.storage.url: {root} holds a run that began with {began!r}, not {url!r}; "
                "restore the value, or start a new run with another --root"
            ]
        )


def _address(url: str | None, root: Path) -> Path | str:
    """Where the store with this `spec.storage.url` is."""
    if url is not None and not url.startswith("file://"):
        return url.rstrip("/")
    return (root / "store" if url is None else file_path(url)).resolve()


@contextmanager
def store_errors(root: Path) -> Iterator[None]:
    """Turn an `OSError` about the folder into a `StoreError` that names a remedy."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        fix = "give a folder that can be written to"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            fix = "free some space and run the same command again"
        raise StoreError(f"{error.filename or root}: {reason}; {fix}") from error


def _manifest(data: bytes, where: str) -> AgentRLRun:
    # Rules across fields are not checked: a later version may have stricter ones.
    try:
        return AgentRLRun.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise StoreError(f"{where}: damaged: not a manifest: {first['msg']}") from error
