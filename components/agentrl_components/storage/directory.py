"""A folder as a store: a key is a file.

A file is written under a temporary name beside its own and then linked (put: fails where something
is) or renamed (replace), so a reader and a crash see all of it or nothing. Temporary names start
with a dot, which no key part does; what a killed process left of them is removed after an hour.
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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import tenacity

from agentrl_components.errors import StoreError
from agentrl_components.storage.store import absent, checked_key, different, is_key

_STALE_S = 3600.0


class DirectoryStore:
    """Keys as files under `folder`, which is made when it is absent.

    A key is absent or whole whenever the process dies, and, with `durable`, whenever the machine
    does: content reaches the disk before its name does.
    """

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.folder = folder.absolute()
        self.url = self.folder.as_uri()
        self._durable = durable
        with _named(self.url, self.url):
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
        with _named(key, self.url):
            self._write(path, lambda file: file.write(data), once=False)

    def get(self, key: str) -> bytes:
        path = self._path(key)
        with _named(key, self.url):
            return path.read_bytes()

    def get_file(self, key: str, path: Path) -> None:
        source = self._path(key)
        with _named(key, self.url):
            shutil.copyfile(source, path)

    def exists(self, key: str) -> bool:
        path = self._path(key)
        with _named(key, self.url):
            return path.is_file()

    def list(self, prefix: str) -> Iterator[str]:
        with _named(prefix, self.url):
            return iter(sorted(self._found(prefix)))

    def delete(self, key: str) -> None:
        path = self._path(key)
        with _named(key, self.url):
            try:
                path.unlink()
            except (FileNotFoundError, NotADirectoryError):
                return
            for folder in itertools.takewhile(lambda folder: folder != self.folder, path.parents):
                if not _removed(folder):
                    return

    def _path(self, key: str) -> Path:
        return self.folder / checked_key(key)

    def _found(self, prefix: str) -> Iterator[str]:
        # Only the part of the tree that can hold such keys is read.
        top, _, _ = prefix.rpartition("/")
        for folder, _, names in os.walk(self.folder / checked_key(top) if top else self.folder):
            for name in names:
                key = (Path(folder) / name).relative_to(self.folder).as_posix()
                if key.startswith(prefix) and is_key(key):
                    yield key

    def _put(
        self, key: str, fill: Callable[[BinaryIO], object], same: Callable[[Path], bool]
    ) -> None:
        path = self._path(key)
        with _named(key, self.url):
            while not self._write(path, fill, once=True):
                try:
                    if not same(path):
                        raise different(key, self.url)
                    return
                except FileNotFoundError as error:
                    if Path(error.filename) != path:  # it is what should be put that is missing
                        raise
                    # another process deleted the key in between

    def _write(self, path: Path, fill: Callable[[BinaryIO], object], *, once: bool) -> bool:
        """Make `path` whole. False: `once`, and something was there already."""
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

    # Another process's `delete` may remove an empty folder while this is made; a file that stands
    # in a folder's place stays there, and is told of after the last attempt.
    @tenacity.retry(
        retry=tenacity.retry_if_exception_type((FileNotFoundError, FileExistsError)),
        stop=tenacity.stop_after_attempt(100),
        reraise=True,
    )
    def _temporary(self, path: Path) -> tuple[Path, BinaryIO]:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name[:40]}.", suffix=".part"
        )
        os.fchmod(descriptor, 0o644)
        return Path(name), os.fdopen(descriptor, "wb")


@contextlib.contextmanager
def _named(key: str, url: str) -> Iterator[None]:
    """Turns the operating system's errors into `StoreError`s that name the key."""
    try:
        yield
    except FileNotFoundError as error:
        raise absent(key, url) from error
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            reason += "; nothing of it was kept. Free some space and run the same command again"
        elif error.errno in (errno.EPERM, errno.EOPNOTSUPP):
            reason += "; the file system must have hard links"
        raise StoreError(f"{key}: in {url}: {reason}") from error


def _removed(folder: Path) -> bool:
    """Remove `folder` if it is empty. Asking first would be too late: another process writes into
    it meanwhile, or removes it."""
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
            return False
        raise
    return True


def _remove_stale(root: Path) -> None:
    """Files and folders that other processes remove meanwhile are none of its business."""
    oldest = time.time() - _STALE_S
    for folder, _, names in os.walk(root):
        for name in fnmatch.filter(names, ".*.part"):
            part = Path(folder, name)
            with contextlib.suppress(FileNotFoundError):
                if part.stat().st_mtime < oldest:
                    part.unlink()
