"""What the samplers of a run need of a hand-over of weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agentrl_components.errors import WorkersLostError


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """What a hand-over took."""

    seconds: float
    bytes: int
    """Bytes of the weights, counted once."""
    lost: Mapping[int, WorkersLostError] = field(default_factory=dict)
    """Indices of the samplers that a call did not reach, and why. They have died or hang, or they
    live with older weights or some of the new ones."""


class WeightTransfer(Protocol):
    """A way for weights to get from the trainers to the samplers."""

    def send(self, samplers: Sequence[Any], version: int) -> HandOver:
        """Give the trainers' weights, which are those of `version`, to samplers. One that a call
        does not reach is left out of later calls. Raises `WorkersLostError` if a trainer died."""
        ...

    def send_again(self, samplers: Sequence[Any], version: int) -> HandOver:
        """Give the weights of the last `send` to samplers that replace lost ones. The trainers
        still have them: they learn only between two hand-overs."""
        ...


class ChangesTransfer(WeightTransfer, Protocol):
    """A way that can also send changes alone."""

    def send_changes(self, samplers: Sequence[Any], version: int, since: int) -> HandOver:
        """As `send`, for samplers that have the weights of version `since`: those of the last
        hand-over."""
        ...
