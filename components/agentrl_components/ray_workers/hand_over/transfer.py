"""What the samplers of a run need of a hand-over of weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """What a hand-over took."""

    seconds: float
    bytes: int
    """Bytes of the weights, counted once."""


class WeightTransfer(Protocol):
    """A way for weights to get from the trainers to the samplers."""

    def send(self, samplers: Sequence[Any], version: int) -> HandOver:
        """Give the trainers' weights, which are those of `version`, to samplers. One that has died
        is left out. Raises `WorkersLostError` if a trainer died."""
        ...

    def send_again(self, sampler: Any, version: int) -> None:
        """Give the weights of the last `send` to a sampler that replaces one that died. The
        trainers still have them: they learn only between two hand-overs."""
        ...
