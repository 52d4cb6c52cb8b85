"""Checkpoints that ranks on several machines exchange with the store, each for itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agentrl_components.ray_workers.calls.results import results
from agentrl_components.sharded.checkpoint import rank_of
from agentrl_components.sharded.rank import CRITIC, POLICY
from agentrl_components.storage import keys
from agentrl_components.storage.files import StoredFile

FOLDERS = tuple(f"{keys.TRAINER}{model}/" for model in (POLICY, CRITIC))
"""Prefixes of the names of files that ranks write."""
WEIGHTS = ".safetensors"
"""How names of files with weights end."""


class StoreShards:
    """Implements `update.trainers.Shards` for `RankActor`s, which write and read at the same time.

    If as many ranks wrote a checkpoint as read it, each fetches the file with its own number and
    the headers of the others. Otherwise the first rank of each machine fetches all files."""

    def __init__(self, actors: Sequence[Any], nodes: Sequence[str]) -> None:
        """`nodes`: the machine of each actor."""
        self._actors, self._nodes = actors, nodes

    def write(self, prefix: str) -> dict[str, StoredFile]:
        calls = [actor.put_files.remote(prefix + keys.TRAINER) for actor in self._actors]
        return {
            f"{keys.TRAINER}{name}": stored
            for written in results(calls)
            for name, stored in written.items()
        }

    def covers(self, name: str) -> bool:
        # The model's weights are for other tools: trainers go on from their own files.
        return name.startswith(FOLDERS) or name.endswith(WEIGHTS)

    def read(self, files: Mapping[str, StoredFile], *, reference: bool) -> None:
        wanted = {
            name.removeprefix(keys.TRAINER): stored
            for name, stored in files.items()
            if name.startswith(FOLDERS)
        }
        whole = own_files(wanted, len(self._actors))
        # The rank that fetches for each rank.
        fetcher = list(range(len(self._actors)))
        if whole is None:
            fetcher = [self._nodes.index(node) for node in self._nodes]
        fetching = sorted(set(fetcher))
        try:
            calls = [
                self._actors[rank].fetch_files.remote(wanted, whole[rank] if whole else wanted)
                for rank in fetching
            ]
            folders = dict(zip(fetching, results(calls), strict=True))
            results(
                [
                    actor.read_folder.remote(folders[fetcher[rank]], reference=reference)
                    for rank, actor in enumerate(self._actors)
                ]
            )
        finally:
            for rank in fetching:
                self._actors[rank].drop_files.remote()


def own_files(names: Collection[str], ranks: int) -> list[list[str]] | None:
    """The files that each rank wrote, by path: one for each model. None: another number of ranks
    wrote them."""
    own: list[list[str]] = [[] for _ in range(ranks)]
    for name in names:
        rank = rank_of(name.rpartition("/")[2])
        if rank is None or rank >= ranks:
            return None
        own[rank].append(name)
    models = {name.rpartition("/")[0] for name in names}
    return own if all(len(some) == len(models) for some in own) else None
