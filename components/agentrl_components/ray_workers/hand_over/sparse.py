"""Hand-over of what changed of the weights (`compute.sparseHandOver`)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from agentrl_components.ray_workers.hand_over.transfer import ChangesTransfer, HandOver


class ComparedSource(Protocol):
    """Compares its weights with those of the last hand-over; `RankSource` implements it."""

    def find_changes(self) -> bool:
        """Find what changed since `remember_weights`. Returns whether to send that in the place of
        the weights."""
        ...

    def remember_weights(self) -> None:
        """Keep the weights as they are now."""
        ...


class SparseTransfer:
    """Implements `WeightTransfer` over a way that can send changes.

    Changes are sent if every sampler has the weights of the last hand-over, and if they are few.
    Otherwise all weights are: at first, in a new driver, and after a hand-over that failed."""

    def __init__(self, source: ComparedSource, way: ChangesTransfer) -> None:
        self._source, self._way = source, way
        self._holders: list[Any] = []
        """Samplers that have the weights that the source remembers."""
        self._version = -1
        """The version of those weights."""

    def send(self, samplers: Sequence[Any], version: int) -> HandOver:
        """As `WeightTransfer.send`."""
        began = time.monotonic()
        all_hold = all(sampler in self._holders for sampler in samplers)
        self._holders = []  # if this hand-over fails, they may have some of its weights
        if all_hold and self._source.find_changes():
            done = self._way.send_changes(samplers, version, self._version)
        else:
            done = self._way.send(samplers, version)
        self._source.remember_weights()
        self._version = version
        self._holders = [one for place, one in enumerate(samplers) if place not in done.lost]
        return replace(done, seconds=time.monotonic() - began)

    def send_again(self, samplers: Sequence[Any], version: int) -> HandOver:
        """As `WeightTransfer.send_again`."""
        done = self._way.send_again(samplers, version)
        self._holders += [one for place, one in enumerate(samplers) if place not in done.lost]
        return done
