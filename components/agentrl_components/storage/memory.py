"""A store that is gone when the process ends, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agentrl_components.storage.store import absent, checked_key, different


class MemoryStore:
    """Keeps everything in a dict."""

    url = "memory:"

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        """Every key and its bytes, for the test to look at or to damage."""

    def put(self, key: str, data: bytes) -> None:
        if self.kept.setdefault(checked_key(key), bytes(data)) != data:
            raise different(key, self.url)

    def put_file(self, key: str, path: Path) -> None:
        self.put(key, path.read_bytes())

    def replace(self, key: str, data: bytes) -> None:
        self.kept[checked_key(key)] = bytes(data)

    def get(self, key: str) -> bytes:
        if checked_key(key) not in self.kept:
            raise absent(key, self.url)
        return self.kept[key]

    def get_file(self, key: str, path: Path) -> None:
        path.write_bytes(self.get(key))

    def exists(self, key: str) -> bool:
        return checked_key(key) in self.kept

    def list(self, prefix: str) -> Iterator[str]:
        return iter(sorted(key for key in self.kept if key.startswith(prefix)))

    def delete(self, key: str) -> None:
        self.kept.pop(checked_key(key), None)
