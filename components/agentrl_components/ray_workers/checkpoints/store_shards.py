"""Checkpoints that ranks on several machines exchange with the store, each for itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentrl_components.ray_workers.calls import results
from agentrl_components.sharded.rank import CRITIC, POLICY
from agentrl_components.storage import keys
from agentrl_components.storage.files import StoredFile

FOLDERS = tuple(f"{keys.TRAINER}{model}/" for model in (POLICY, CRITIC))
"""Prefixes of the names of files that ranks write."""


class StoreShards:
    """Implements `update.trainers.Shards` for `RankActor`s. All ranks write at the same time. Of
    the ranks on one machine the first one fetches the files of all."""

    def __init__(self, actors: Sequence[Any], nodes: Sequence[str]) -> None:
        """`nodes`: the machine of each actor."""
        self._actors = actors
        self._first = {node: nodes.index(node) for node in nodes}
        """The first rank of each machine."""
        self._nodes = nodes

    def write(self, prefix: str) -> dict[str, StoredFile]:
        calls = [actor.put_files.remote(prefix + keys.TRAINER) for actor in self._actors]
        return {
            f"{keys.TRAINER}{name}": stored
            for written in results(calls)
            for name, stored in written.items()
        }

    def covers(self, name: str) -> bool:
        return name.startswith(FOLDERS)

    def read(self, files: Mapping[str, StoredFile], *, reference: bool) -> None:
        wanted = {name.removeprefix(keys.TRAINER): stored for name, stored in files.items()}
        fetching = [self._actors[rank] for rank in self._first.values()]
        try:
            fetched = results([actor.fetch_files.remote(wanted) for actor in fetching])
            folders = dict(zip(self._first, fetched, strict=True))
            results(
                [
                    actor.read_folder.remote(folders[node], reference=reference)
                    for actor, node in zip(self._actors, self._nodes, strict=True)
                ]
            )
        finally:
            for actor in fetching:
                actor.drop_files.remote()
