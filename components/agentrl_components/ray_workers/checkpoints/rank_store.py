"""A rank's access to the store of its run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath

from agentrl_components.errors import AbsentError, StoreError
from agentrl_components.sharded.rank import Rank
from agentrl_components.spec.fields.storage import Storage
from agentrl_components.storage import files as stored_files
from agentrl_components.storage.files import DamagedError, StoredFile
from agentrl_components.storage.open import open_store
from agentrl_components.storage.scratch import ScratchFolder
from agentrl_components.storage.store import Store
from agentrl_components.storage.tensors import fetch_header


class RankStore:
    """Writes this rank's files of a checkpoint to the store, and fetches those of all ranks."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._fetched: ScratchFolder | None = None

    @property
    def opens(self) -> bool:
        """Whether the store can be opened on this machine: it has an address that is the same on
        all machines, and its credentials are in the environment."""
        try:
            self._open()
        except StoreError:
            return False
        return True

    def write(self, rank: Rank, prefix: str) -> dict[str, StoredFile]:
        """Write the rank's files under `prefix`. Returns them by their path under it."""
        store = self._open()
        with ScratchFolder() as folder:
            return {
                name: stored_files.put(store, prefix + name, path)
                for name, path in rank_files(rank, folder).items()
            }

    def fetch(self, files: Mapping[str, StoredFile], whole: Collection[str]) -> Path:
        """Fetch files, by their path, into a folder of this machine, which `drop` removes; of those
        that are not in `whole` their headers alone. Raises `DamagedError` if one is missing, or has
        other bytes than were written."""
        store = self._open()
        self._fetched = ScratchFolder()
        folder = self._fetched.path
        for name, stored in files.items():
            fetch = stored_files.fetch if name in whole else fetch_header
            try:
                fetch(store, stored, folder / name)
            except AbsentError as error:
                raise DamagedError(f"{stored.key}: in {store.url}: damaged: missing") from error
        return folder

    def drop(self) -> None:
        """Remove what was fetched."""
        if self._fetched is not None:
            self._fetched.close()
            self._fetched = None

    def _open(self) -> Store:
        if not (self._storage.url or "").startswith("s3://"):
            raise StoreError(f"storage.url: {self._storage.url}: is on one machine alone")
        return open_store(self._storage, Path())


def rank_files(rank: Rank, folder: Path) -> dict[str, Path]:
    """Have the rank write its part of a checkpoint below `folder`. Returns its files by their path
    under it."""
    written = [path for paths in rank.write(folder).values() for path in paths]
    return {str(PurePosixPath(path.relative_to(folder))): path for path in written}
