"""Forward passes of a model of transformers, one session at a time.

Every session has a cache of transformers' own, whose form depends on the architecture (sliding
windows, recurrent states). Sessions share no forward pass, so a reply does not depend on the others
in the batch. It is much slower than the built-in decoder and than vLLM.

Legend: B rows, V vocabulary.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from agentrl_components.engines.torch_engine.reply import Session
from agentrl_components.model.foreign.model import ForeignModel


@dataclass(slots=True)
class _Kept:
    """The tokens of a session and their cache."""

    ids: list[int]
    cache: Any
    """None: the architecture has no cache of this form; all tokens are computed again."""


class SessionPasses:
    """Implements `ForwardPasses` with a `ForeignModel`."""

    def __init__(self, model: ForeignModel) -> None:
        self._model = model
        self._caches = "past_key_values" in inspect.signature(self._model.body.forward).parameters
        self._kept: dict[int, _Kept] = {}
        """Keyed by slot."""

    def logits(self, fresh: Sequence[Sequence[int]], sessions: Sequence[Session]) -> Tensor:
        """As `ForwardPasses.logits`."""
        rows = [self._row(ids, session) for ids, session in zip(fresh, sessions, strict=True)]
        return torch.cat(rows)

    def release(self, slot: int) -> None:
        """As `ForwardPasses.release`."""
        self._kept.pop(slot, None)

    def forget_weights(self) -> None:
        """As `ForwardPasses.forget_weights`. The model's own parameters are used."""

    def _row(self, fresh: Sequence[int], session: Session) -> Tensor:
        kept = self._kept.get(session.slot)
        if kept is None or session.cached == 0:
            kept = self._kept[session.slot] = _Kept([], self._new_cache())
        kept.ids.extend(fresh)
        given = kept.ids if kept.cache is None else fresh
        ids_1N = torch.tensor([list(given)], device=self._model.device)
        named = {} if kept.cache is None else {"past_key_values": kept.cache, "use_cache": True}
        states_1NE = self._model.body(input_ids=ids_1N, **named).last_hidden_state
        logits_1V: Tensor = self._model.logits(states_1NE[0, -1:])
        return logits_1V

    def _new_cache(self) -> Any:
        if not self._caches:
            return None
        from transformers import DynamicCache

        return DynamicCache(config=self._model.config)
