"""What the torch engine needs of a model's forward passes.

Legend: B rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from agentrl_components.engines.torch_engine.reply import Session


class ForwardPasses(Protocol):
    """Computes new tokens of many sessions, and keeps what later tokens need of them."""

    def logits(self, fresh: Sequence[Sequence[int]], sessions: Sequence[Session]) -> Tensor:
        """Logits [B, V] after the new tokens of each session. `Session.cached` says how many tokens
        of a session were computed before."""
        ...

    def release(self, slot: int) -> None:
        """Drop what is kept of the session in `slot`."""
        ...

    def forget_weights(self) -> None:
        """The model's parameters may have been changed in place."""
        ...
