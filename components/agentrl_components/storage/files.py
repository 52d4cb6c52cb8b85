"""The files of a checkpoint, and where their content is."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from agentrl_components.errors import StoreError
from agentrl_components.storage.store import Store

Files = dict[str, bytes | Path]
"""Content by file name; a path if the content is too large for memory."""


class DamagedError(StoreError):
    """The bytes in the store differ from those that were written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """What a manifest says about a file."""

    size: int
    """Bytes."""
    sha256: str

    @classmethod
    def of(cls, content: bytes | Path) -> Digest:
        """The digest of a file's content."""
        if isinstance(content, bytes):
            return cls(size=len(content), sha256=hashlib.sha256(content).hexdigest())
        with content.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
        return cls(size=content.stat().st_size, sha256=digest.hexdigest())

    def as_json(self) -> dict[str, int | str]:
        """The digest as it stands in a manifest."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file whose content is in the store, under `key`."""

    key: str
    digest: Digest


def put(store: Store, key: str, content: bytes | Path) -> StoredFile:
    """Write a file under `key`. Raises `StoreError` as `Store.put` does."""
    if isinstance(content, bytes):
        store.put(key, content)
        return StoredFile(key=key, digest=Digest.of(content))
    with ThreadPoolExecutor(1) as beside:  # hashing releases the interpreter lock
        digest = beside.submit(Digest.of, content)
        store.put_file(key, content)
        return StoredFile(key=key, digest=digest.result())


def fetch(store: Store, stored: StoredFile, path: Path) -> None:
    """Stream a file to `path`, whose folder is created if necessary, and verify it.

    Raises:
        DamagedError: it has other bytes than those that were written.
        AbsentError: it is not there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    store.get_file(stored.key, path)
    verify(store, stored, path)


def verify(store: Store, stored: StoredFile, content: bytes | Path) -> None:
    """Raise `DamagedError` if `content` is not what was written."""
    found, expected = Digest.of(content), stored.digest
    if found != expected:
        raise DamagedError(
            f"{stored.key}: in {store.url}: damaged: {found.size} bytes with sha256"
            f" {found.sha256[:12]}, expected {expected.size} with {expected.sha256[:12]}"
        )
