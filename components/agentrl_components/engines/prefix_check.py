"""Check that the requests of an episode only ever extend one another.

If the tokens of an earlier turn change between two requests, the tokens that are trained on are not
those that were sampled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from agentrl_components.engines.engine import Engine, Generation, Request
from agentrl_components.errors import DriftError
from agentrl_components.spec.fields.rollout import Interrupt

if TYPE_CHECKING:
    import torch

CONTEXT_SHOWN = 4
"""Token ids shown in an error on either side of the first difference."""


def check_extends(before: Sequence[int], after: Sequence[int]) -> None:
    """Raise `DriftError` unless `after`, the ids of a request, begins with `before`, the ids of the
    session's previous request and its reply. The error shows where they differ."""
    if tuple(after[: len(before)]) == tuple(before):
        return
    place = next(
        (i for i, (old, new) in enumerate(zip(before, after, strict=False)) if old != new),
        min(len(before), len(after)),
    )
    window = slice(max(0, place - CONTEXT_SHOWN), place + CONTEXT_SHOWN + 1)
    raise DriftError(
        f"token {place} changed between two turns: had {list(before[window])}, now "
        f"{list(after[window])} (both from position {window.start}); "
        f"the episode had {len(before)} tokens, the request has {len(after)}"
    )


class CheckedEngine:
    """Wraps an engine and checks that every request extends the session's previous one.

    The comparison takes less than a microsecond per hundred tokens, so it is always enabled."""

    def __init__(self, engine: Engine, on_reply: Callable[[], None] = lambda: None) -> None:
        """`on_reply` is called after each reply."""
        self._engine, self._on_reply = engine, on_reply
        self._seen: dict[int, tuple[int, ...]] = {}

    async def generate(self, request: Request) -> Generation:
        """One reply. Raises `DriftError` when the request does not extend the session's previous
        request and reply, and whatever the wrapped engine raises."""
        asked = tuple(request.ids)
        check_extends(self._seen.get(request.session, ()), asked)
        generation = await self._engine.generate(request)
        self._seen[request.session] = asked + tuple(generation.ids)
        self._on_reply()
        return generation

    async def release(self, session: int) -> None:
        self._seen.pop(session, None)
        await self._engine.release(session)

    async def load(
        self,
        weights: Mapping[str, torch.Tensor],
        version: int,
        interrupt: Interrupt = "finish",
    ) -> None:
        await self._engine.load(weights, version, interrupt)

    async def close(self) -> None:
        self._seen.clear()
        await self._engine.close()
