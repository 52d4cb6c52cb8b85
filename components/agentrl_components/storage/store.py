"""The interface of the object store: bytes under keys that are written once.

Keys are relative paths. Writes are atomic: a key is either absent or complete. `DirectoryStore` and
`S3Store` use the same layout; `MemoryStore` is for tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from agentrl_components.errors import AbsentError, StoreError

_KEY = re.compile(r"[\w=+@-][\w.=+@-]*(/[\w=+@-][\w.=+@-]*)*", re.ASCII)
_KEY_LENGTH = 900  # S3 allows 1024 bytes, including the prefix
_PART_LENGTH = 200  # file systems allow 255 bytes; temporary names add a suffix


class Store(Protocol):
    """Write-once bytes under a prefix. Every method may raise `StoreError`, which names the key."""

    url: str
    """Address of the store for messages, without secrets."""

    def put(self, key: str, data: bytes) -> None:
        """Write `key`. Does nothing if the key has the same bytes already; raises `StoreError` if
        it has other bytes."""
        ...

    def put_file(self, key: str, path: Path) -> None:
        """Like `put`, with the content of a file, which is streamed."""
        ...

    def replace(self, key: str, data: bytes) -> None:
        """Write `key` even if it exists. For the few keys that change, such as `state.json`."""
        ...

    def get(self, key: str) -> bytes:
        """The bytes of `key`. Raises `AbsentError` if the key does not exist."""
        ...

    def get_start(self, key: str, size: int) -> bytes:
        """The first `size` bytes of `key`, or all if it has fewer. Raises `AbsentError` if the key
        does not exist."""
        ...

    def get_file(self, key: str, path: Path) -> None:
        """Stream the bytes of `key` to the file `path`, whose folder must exist."""
        ...

    def exists(self, key: str) -> bool:
        """Whether `key` exists."""
        ...

    def list(self, prefix: str) -> Iterator[str]:
        """The keys that start with `prefix`, sorted. Names that are not valid keys are skipped."""
        ...

    def delete(self, key: str) -> None:
        """Delete `key`. Does nothing if it does not exist."""
        ...

    def delete_many(self, keys: Sequence[str]) -> None:
        """Delete all `keys` that exist, in any order, with as few requests as the store allows. If
        one cannot be deleted, others may be deleted nevertheless."""
        ...


def is_key(key: str) -> bool:
    """Whether `key` is valid in every store: parts of letters, digits and `_.=+@-`, separated by
    single slashes, none of which starts with a dot."""
    too_long = len(key) > _KEY_LENGTH or any(len(part) > _PART_LENGTH for part in key.split("/"))
    return not too_long and _KEY.fullmatch(key) is not None


def valid_key(key: str) -> str:
    """`key` itself. Raises `StoreError` if it is not a valid key."""
    if not is_key(key):
        raise StoreError(
            f"{key[:200]!r}: not a valid key; use parts of letters, digits and _.=+@-, separated by"
            " single slashes, none starting with a dot"
        )
    return key


def absent_error(key: str, url: str) -> AbsentError:
    """The error for a key that does not exist."""
    return AbsentError(f"{key}: not in {url}")


def conflict_error(key: str, url: str) -> StoreError:
    """The error for a key that exists with other bytes."""
    return StoreError(
        f"{key}: already in {url} with other bytes, and keys are written once; two runs use"
        " the same address, or another run was started there before; use another address"
    )
