"""The weight channel: new policy versions, from the process that learns to the one that plays,
through the store.

A version is its trainable parameters, as the vector that the optimizer moves; base weights under
adapters are not sent. What it is for is written last: without that it is not there.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import torch

from agentrl_components import layout, tensors
from agentrl_components.store import Store

VECTOR = "vector.safetensors"
PUBLISHED = "published.json"
KEPT = 2
"""Versions in the store: the newest, and one that may still be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What a version is for."""

    iteration: int
    """To be played with it."""
    version: int
    """Updates that it has seen."""
    phase: int
    """Of that iteration."""
    max_turns: int
    """Of that phase."""
    finished: bool
    """Nothing is to be played any more."""


class WeightChannel:
    """Policy versions by the iteration they play."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def publish(self, published: Published, vector_P: torch.Tensor) -> None:
        """Hand over a version. One that is there stays as it is: it may have been played with."""
        number = published.iteration
        if self.read(number) is None:
            key = layout.policy(number, VECTOR)
            self._store.replace(key, pack(vector_P, key))
            told = json.dumps(asdict(published)).encode()
            self._store.put(layout.policy(number, PUBLISHED), told)
        for stale in self._numbers()[:-KEPT]:
            for name in (PUBLISHED, VECTOR):
                self._store.delete(layout.policy(stale, name))

    def read(self, number: int) -> Published | None:
        """What plays iteration `number`; None: nothing yet."""
        key = layout.policy(number, PUBLISHED)
        return Published(**json.loads(self._store.get(key))) if self._store.exists(key) else None

    def newest(self) -> Published | None:
        """The version of the latest iteration, if there is any."""
        numbers = self._numbers()
        return self.read(numbers[-1]) if numbers else None

    def fetch(self, published: Published) -> torch.Tensor:
        """The weights [P] of a version."""
        data = self._store.get(layout.policy(published.iteration, VECTOR))
        return tensors.unpack(data)["vector"]

    def _numbers(self) -> list[int]:
        """Iterations that can be played, in order."""
        ends = f"/{PUBLISHED}"
        return [
            int(key.removeprefix(layout.POLICIES).removesuffix(ends))
            for key in self._store.list(layout.POLICIES)
            if key.endswith(ends)
        ]


def pack(vector_P: torch.Tensor, name: str) -> bytes:
    """The vector as a file's bytes."""
    packed = tensors.pack({"vector": vector_P}, name)
    assert isinstance(packed, bytes)  # without a folder to spool to, it is held in memory
    return packed
