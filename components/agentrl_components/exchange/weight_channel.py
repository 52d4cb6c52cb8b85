"""The weight channel: new policies, from the process that learns to the one that plays, through the
store.

A policy is its trainable parameters, as the vector that the optimizer moves, in the type that the
player holds them in; base weights under adapters are not sent. What it is for is written last:
without that it is not there.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import torch

from agentrl_components.errors import AbsentError
from agentrl_components.schedule.staleness import Ahead
from agentrl_components.storage import keys, tensors
from agentrl_components.storage.store import Store

VECTOR = "vector.safetensors"
PUBLISHED = "published.json"
SPARE = 1
"""Policies kept beyond those that may still be played with: whoever is late may be reading one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What may be played from this policy on, up to the next."""

    ahead: Ahead
    """Iterations. The policy's own number is that of the first."""
    version: int
    """Updates that the policy has seen."""
    phase: int
    """Of those iterations."""
    max_turns: int
    """Of that phase."""
    finished: bool
    """Nothing is to be played any more."""


class WeightChannel:
    """Policies by their number: so many iterations were done."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.url = store.url

    def publish(self, published: Published, vector_P: torch.Tensor) -> None:
        """Hand over a policy. One that is there stays as it is: it may have been played with."""
        number, lag = published.ahead.number, published.ahead.most
        if self.read(number) is None:
            key = keys.policy(number, VECTOR)
            self._store.replace(key, pack(vector_P, key))
            told = json.dumps(asdict(published)).encode()
            self._store.put(keys.policy(number, PUBLISHED), told)
        for old in self._numbers()[: -(lag + 1 + SPARE)]:
            for name in (PUBLISHED, VECTOR):
                self._store.delete(keys.policy(old, name))

    def read(self, number: int) -> Published | None:
        """What policy `number` is for; None: it is not there."""
        try:
            told = json.loads(self._store.get(keys.policy(number, PUBLISHED)))
        except AbsentError:
            return None
        return Published(**told | {"ahead": Ahead(**told["ahead"])})

    def newest(self) -> Published | None:
        """The latest policy, if there is any."""
        numbers = self._numbers()
        return self.read(numbers[-1]) if numbers else None

    def fetch(self, number: int) -> torch.Tensor:
        """The weights [P] of policy `number`."""
        return tensors.unpack(self._store.get(keys.policy(number, VECTOR)))["vector"]

    def clear(self) -> None:
        """Take back every policy."""
        for key in list(self._store.list(keys.POLICIES)):
            self._store.delete(key)

    def _numbers(self) -> list[int]:
        """Policies that are there, in order."""
        ends = f"/{PUBLISHED}"
        return [
            int(key.removeprefix(keys.POLICIES).removesuffix(ends))
            for key in self._store.list(keys.POLICIES)
            if key.endswith(ends)
        ]


def pack(vector_P: torch.Tensor, name: str) -> bytes:
    """The vector as a file's bytes."""
    packed = tensors.pack({"vector": vector_P}, name)
    assert isinstance(packed, bytes)  # without a folder to spool to, it is held in memory
    return packed
