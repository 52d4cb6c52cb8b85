"""The object store, as the rest of a run sees it: bytes under keys, each put once.

Keys are paths without a leading slash. Writing is atomic: a key is absent or whole.
`DirectoryStore` and `MinioStore` keep the same layout; `MemoryStore` is for tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from agentrl_components.errors import AbsentError, StoreError

_KEY = re.compile(r"[\w=+@-][\w.=+@-]*(/[\w=+@-][\w.=+@-]*)*", re.ASCII)
_KEY_LENGTH = 900  # S3 allows 1024 bytes, of which a prefix needs some
_PART_LENGTH = 200  # file systems allow 255 bytes, of which a temporary name needs some


class Store(Protocol):
    """Put-once bytes under a prefix. Every method may raise `StoreError`, which names the key."""

    url: str
    """Where this is, for people; holds no secret."""

    def put(self, key: str, data: bytes) -> None:
        """Write `key`. The same bytes again: nothing happens. Other bytes: `StoreError`."""
        ...

    def put_file(self, key: str, path: Path) -> None:
        """As `put`, of a file that is never held in memory whole."""
        ...

    def replace(self, key: str, data: bytes) -> None:
        """Write `key`, whatever was there: for the few pointers that move."""
        ...

    def get(self, key: str) -> bytes:
        """The bytes of `key`. Raises `AbsentError` where there is none."""
        ...

    def get_file(self, key: str, path: Path) -> None:
        """Write the bytes of `key` to `path`, whose folder exists, without holding them whole."""
        ...

    def exists(self, key: str) -> bool:
        """Whether `key` has been written."""
        ...

    def list(self, prefix: str) -> Iterator[str]:
        """Keys that start with `prefix`, sorted. What is there under other names than keys is
        skipped."""
        ...

    def delete(self, key: str) -> None:
        """Forget `key`; nothing happens when it is absent."""
        ...


def is_key(key: str) -> bool:
    """Whether `key` means the same in every store: letters, digits and `_.=+@-`, in parts between
    single slashes, none of which starts with a dot."""
    long = len(key) > _KEY_LENGTH or any(len(part) > _PART_LENGTH for part in key.split("/"))
    return not long and _KEY.fullmatch(key) is not None


def checked_key(key: str) -> str:
    """`key`, when it is one; else `StoreError`."""
    if not is_key(key):
        raise StoreError(
            f"{key[:200]!r}: not a key. Use parts of letters, digits and _.=+@- between single"
            " slashes, none starting with a dot"
        )
    return key


def absent(key: str, url: str) -> AbsentError:
    """The error for a key that is not there."""
    return AbsentError(f"{key}: not in {url}")


def different(key: str, url: str) -> StoreError:
    """The error for a key that was written before, with other bytes."""
    return StoreError(
        f"{key}: already in {url} with other bytes, and keys are written once. Two runs share the"
        " place, or the run is not the one that was started here; use another place"
    )
