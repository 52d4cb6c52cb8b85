"""Object store in a folder: one file per key.

A file is written under a temporary name in the same folder and then linked (`put`, which fails if
the name exists) or renamed (`replace`), so neither a reader nor a crash sees a partial file.
Temporary names start with a dot, which parts of keys never do. Part of a checkpoint takes
gigabytes, so opening a store removes the temporary files of killed processes: those of this machine
at once, because a process holds a lock on its own, and those of other machines after an hour.
"""

from __future__ import annotations

import contextlib
import errno
import filecmp
import fnmatch
import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import tenacity

from agentrl_components.errors import StoreError
from agentrl_components.storage.locks import HOST, hold, is_abandoned
from agentrl_components.storage.store import absent_error, conflict_error, is_key, valid_key

_STALE_S = 3600.0


class DirectoryStore:
    """Keys as files in `folder`, which is created if necessary.

    Writes are atomic if the process is killed and, with `durable`, if the machine crashes: the
    content is synced to the disk before it gets its name.
    """

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.folder = folder.absolute()
        self.url = self.folder.as_uri()
        self._durable = durable
        with _store_errors(self.url, self.url):
            self.folder.mkdir(parents=True, exist_ok=True)
            _remove_stale(self.folder)

    def put(self, key: str, data: bytes) -> None:
        self._put(key, lambda file: file.write(data), lambda there: there.read_bytes() == data)

    def put_file(self, key: str, path: Path) -> None:
        def copy(file: BinaryIO) -> None:
            with path.open("rb") as source:
                shutil.copyfileobj(source, file, 1 << 20)

        self._put(key, copy, lambda there: filecmp.cmp(path, there, shallow=False))

    def replace(self, key: str, data: bytes) -> None:
        path = self._path(key)
        with _store_errors(key, self.url):
            self._write(path, lambda file: file.write(data), once=False)

    def get(self, key: str) -> bytes:
        path = self._path(key)
        with _store_errors(key, self.url):
            return path.read_bytes()

    def get_start(self, key: str, size: int) -> bytes:
        path = self._path(key)
        with _store_errors(key, self.url), path.open("rb") as file:
            return file.read(size)

    def get_file(self, key: str, path: Path) -> None:
        source = self._path(key)
        with _store_errors(key, self.url):
            shutil.copyfile(source, path)

    def exists(self, key: str) -> bool:
        path = self._path(key)
        with _store_errors(key, self.url):
            return path.is_file()

    def list(self, prefix: str) -> Iterator[str]:
        with _store_errors(prefix, self.url):
            return iter(sorted(self._keys(prefix)))

    def delete(self, key: str) -> None:
        path = self._path(key)
        with _store_errors(key, self.url):
            try:
                path.unlink()
            except (FileNotFoundError, NotADirectoryError):
                return
            for folder in itertools.takewhile(lambda folder: folder != self.folder, path.parents):
                if not _remove_if_empty(folder):
                    return

    def delete_many(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.delete(key)

    def _path(self, key: str) -> Path:
        return self.folder / valid_key(key)

    def _keys(self, prefix: str) -> Iterator[str]:
        # Only the subtree that can contain such keys is read.
        top, _, _ = prefix.rpartition("/")
        for folder, _, names in os.walk(self.folder / valid_key(top) if top else self.folder):
            for name in names:
                key = (Path(folder) / name).relative_to(self.folder).as_posix()
                if key.startswith(prefix) and is_key(key):
                    yield key

    def _put(
        self, key: str, fill: Callable[[BinaryIO], object], same: Callable[[Path], bool]
    ) -> None:
        path = self._path(key)
        with _store_errors(key, self.url):
            while not self._write(path, fill, once=True):
                try:
                    if not same(path):
                        raise conflict_error(key, self.url)
                    return
                except FileNotFoundError as error:
                    if Path(error.filename) != path:  # the source is missing, not the key
                        raise
                    # another process deleted the key in the meantime

    def _write(self, path: Path, fill: Callable[[BinaryIO], object], *, once: bool) -> bool:
        """Write `path` atomically. Returns False if `once` is set and the path exists."""
        if once and path.is_file():
            return False
        part, file = self._temporary(path)
        try:
            with file:
                fill(file)
                file.flush()
                if self._durable:
                    os.fsync(file.fileno())
                if once:
                    os.link(part, path)
                else:
                    part.replace(path)
        except FileExistsError:
            return False
        finally:
            part.unlink(missing_ok=True)
        return True

    # Another process's `delete` may remove the empty folder in the meantime. If a file has the name
    # of the folder, the last attempt raises.
    @tenacity.retry(
        retry=tenacity.retry_if_exception_type((FileNotFoundError, FileExistsError)),
        stop=tenacity.stop_after_attempt(100),
        reraise=True,
    )
    def _temporary(self, path: Path) -> tuple[Path, BinaryIO]:
        """A new file beside `path`, locked until it is closed."""
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name[:40]}.{HOST}.", suffix=".new"
        )
        hold(descriptor)
        os.fchmod(descriptor, 0o644)
        part = Path(name).with_suffix(".part")  # a name that `_remove_stale` looks for
        os.rename(name, part)
        return part, os.fdopen(descriptor, "wb")


@contextlib.contextmanager
def _store_errors(key: str, url: str) -> Iterator[None]:
    """Convert operating system errors to `StoreError`s that name the key."""
    try:
        yield
    except FileNotFoundError as error:
        raise absent_error(key, url) from error
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            reason += "; no partial file was kept; free some space and run the same command again"
        elif error.errno in (errno.EPERM, errno.EOPNOTSUPP):
            reason += "; the file system must support hard links"
        raise StoreError(f"{key}: in {url}: {reason}") from error


def _remove_if_empty(folder: Path) -> bool:
    """Remove `folder` if it is empty. There is no check before, because another process may write
    into the folder or remove it in between."""
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
            return False
        raise
    return True


def _remove_stale(root: Path) -> None:
    """Remove temporary files of processes that were killed. Files that other processes remove at
    the same time, and those that this user may not write, are skipped."""
    for folder, _, names in os.walk(root):
        for name in fnmatch.filter(names, ".*.part"):
            part = Path(folder, name)
            with contextlib.suppress(OSError):
                if _is_stale(part):
                    part.unlink()


def _is_stale(part: Path) -> bool:
    """Whether the process that wrote the file is gone."""
    if part.stat().st_mtime < time.time() - _STALE_S:
        return True
    if f".{HOST}." not in part.name:
        return False
    with part.open("rb+") as file:
        return is_abandoned(file.fileno())
