"""In-memory object store, for tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from agentrl_components.storage.store import absent_error, conflict_error, valid_key


class MemoryStore:
    """Keys in a dict."""

    url = "memory:"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        """All keys and their bytes, which tests may inspect and change."""

    def put(self, key: str, data: bytes) -> None:
        if self.objects.setdefault(valid_key(key), bytes(data)) != data:
            raise conflict_error(key, self.url)

    def put_file(self, key: str, path: Path) -> None:
        self.put(key, path.read_bytes())

    def replace(self, key: str, data: bytes) -> None:
        self.objects[valid_key(key)] = bytes(data)

    def get(self, key: str) -> bytes:
        if valid_key(key) not in self.objects:
            raise absent_error(key, self.url)
        return self.objects[key]

    def get_start(self, key: str, size: int) -> bytes:
        return self.get(key)[:size]

    def get_file(self, key: str, path: Path) -> None:
        path.write_bytes(self.get(key))

    def exists(self, key: str) -> bool:
        return valid_key(key) in self.objects

    def list(self, prefix: str) -> Iterator[str]:
        return iter(sorted(key for key in self.objects if key.startswith(prefix)))

    def delete(self, key: str) -> None:
        self.objects.pop(valid_key(key), None)

    def delete_many(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.delete(key)
