"""Weight channel: new policies, from the learning to the playing process, through the store.

A policy is the vector of its trainable parameters, in the data type that the playing process uses;
with LoRA the frozen base weights are not sent. The description is written last: a policy without it
does not exist yet.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import torch

from agentrl_components.errors import AbsentError
from agentrl_components.schedule.staleness import PlayWindow
from agentrl_components.storage import keys, tensors
from agentrl_components.storage.store import Store

VECTOR = "vector.safetensors"
PUBLISHED = "published.json"
SPARE = 1
"""Policies kept beyond those that may still be needed: a slow reader may be reading one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What may be played once this policy is there, until the next one."""

    window: PlayWindow
    """The iterations. The number of the policy is that of the first."""
    version: int
    """Updates that the weights have seen."""
    phase: int
    """Phase of those iterations."""
    max_turns: int
    """Horizon of that phase."""
    finished: bool
    """No further iteration is played."""

    def can_follow(self, earlier: Published) -> bool:
        """Whether a run that published `earlier` can have published this policy, which has a
        greater number, later. The phase never goes back, nor does the number of updates beyond one
        for each iteration (rollbacks count as updates), and nothing follows the end of the run."""
        return (
            not earlier.finished
            and self.phase >= earlier.phase
            and self.version - self.window.number >= earlier.version - earlier.window.number
        )


class WeightChannel:
    """Policies by number: the number of iterations done before them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.url = store.url

    def publish(self, published: Published, vector_P: torch.Tensor) -> None:
        """Write a policy, and delete old ones. An existing one is not replaced: it may have been
        used already. Withdraw one that contradicts `published` first."""
        number, lag = published.window.number, published.window.max_lag
        if self.read(number) is None:
            key = keys.policy(number, VECTOR)
            self._store.replace(key, pack(vector_P, key))
            description = json.dumps(asdict(published)).encode()
            self._store.put(keys.policy(number, PUBLISHED), description)
        for old in self._numbers()[: -(lag + 1 + SPARE)]:
            self._delete(old)

    def contradicts(self, published: Published) -> bool:
        """Whether the policies from this number on belong to iterations that were repeated since
        and ended otherwise, such as with the end of the phase. A run that resumes repeats those
        after its checkpoint; on a device that rounds differently they have other values."""
        number = published.window.number
        there, newest = self.read(number), self.newest()
        if there is not None and there != published:
            return True
        # The one with this number may have been deleted as an old one.
        later = newest is not None and newest.window.number > number
        return newest is not None and later and not newest.can_follow(published)

    def withdraw(self, number: int) -> None:
        """Delete policy `number` and all later ones, the newest first: those that a kill in between
        leaves still contradict what is published next."""
        for there in reversed(self._numbers()):
            if there >= number:
                self._delete(there)

    def read(self, number: int) -> Published | None:
        """The description of policy `number`. None: there is no such policy."""
        try:
            data = json.loads(self._store.get(keys.policy(number, PUBLISHED)))
        except AbsentError:
            return None
        return Published(**data | {"window": PlayWindow(**data["window"])})

    def newest(self) -> Published | None:
        """The newest policy, if there is one."""
        numbers = self._numbers()
        return self.read(numbers[-1]) if numbers else None

    def fetch(self, number: int) -> torch.Tensor:
        """The weights [P] of policy `number`."""
        return tensors.unpack(self._store.get(keys.policy(number, VECTOR)))["vector"]

    def clear(self) -> None:
        """Delete every policy."""
        for key in list(self._store.list(keys.POLICIES)):
            self._store.delete(key)

    def _delete(self, number: int) -> None:
        for name in (PUBLISHED, VECTOR):
            self._store.delete(keys.policy(number, name))

    def _numbers(self) -> list[int]:
        """Numbers of the existing policies, in order."""
        ends = f"/{PUBLISHED}"
        return [
            int(key.removeprefix(keys.POLICIES).removesuffix(ends))
            for key in self._store.list(keys.POLICIES)
            if key.endswith(ends)
        ]


def pack(vector_P: torch.Tensor, name: str) -> bytes:
    """The vector [P] as the bytes of a safetensors file."""
    packed = tensors.pack({"vector": vector_P}, name)
    assert isinstance(packed, bytes)  # small tensors are packed in memory
    return packed
