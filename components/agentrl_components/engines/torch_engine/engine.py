"""Continuous batching in plain torch: the engine of laptops and tests.

Whatever is ready is computed together: new observations and next tokens share one forward pass,
each session's keys stay cached between its turns, and nobody waits for anybody.

On CPU, with one thread, a reply depends on its own request alone and not on what else was in the
batch: shapes are padded until every number is computed by the same code, masked attention ignores
padding exactly, and the random number of a token is a hash of (request seed, index of the token).
`tests/components/torch_engine/test_bits.py` holds it to that, bit for bit.

Legend: N packed new tokens, B rows, L queries of a row, Q = L x query heads of a key head, T keys,
V vocabulary.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentrl_components.engines.action_trie import Node, Trie, trie_of
from agentrl_components.engines.engine import Generation, Request, Stop
from agentrl_components.engines.torch_engine import row_padding
from agentrl_components.engines.torch_engine.batch import Batch, Likes, activation_step
from agentrl_components.engines.torch_engine.kv_cache import Bucket, Cached, SlotCache
from agentrl_components.engines.torch_engine.sampling import distribution, pick, uniforms
from agentrl_components.errors import EngineError
from agentrl_components.model.decoder import Decoder


@dataclass(slots=True)
class _Session:
    """One episode's cache."""

    slot: int
    cached: int = 0
    """Tokens whose keys are in the cache."""


@dataclass(slots=True)
class _Row:
    """One reply in the making."""

    request: Request
    session: _Session
    answer: asyncio.Future[Generation]
    fresh: list[int]
    """Tokens not yet in the cache; the last one is what the next token is sampled from."""
    trie: Trie | None
    node: Node | None
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    sampled: list[bool] = field(default_factory=list)
    allowed: list[tuple[int, ...]] = field(default_factory=list)


class TorchEngine:
    """An `Engine` over a `Decoder` in this process. Serves one event loop."""

    def __init__(self, decoder: Decoder, version: int = 0) -> None:
        self._decoder = decoder
        self._version = version
        self._sessions: dict[int, _Session] = {}
        self._free: list[int] = []
        self._ready: list[_Row] = []
        self._pump: asyncio.Task[None] | None = None
        weight = decoder.model.embed_tokens.weight
        self._device = weight.device
        shape = decoder.shape
        self._cache = SlotCache(
            shape.layers, shape.kv_heads, shape.head_width, weight.dtype, weight.device
        )
        self._group = shape.heads // shape.kv_heads
        self._rows = row_padding.rows(shape, weight.dtype, weight.device).by(
            activation_step(shape.intermediate)
        )
        self._loading: asyncio.Event | None = None
        """Set when new weights are in; None when none are on their way."""
        self._slots = 1  # slot 0 takes the padding of small batches

    async def generate(self, request: Request) -> Generation:
        """One reply; it joins the batch at the next forward pass."""
        if self._loading is not None:
            await self._loading.wait()
        session = self._sessions.get(request.session)
        if session is None:
            session = self._sessions[request.session] = _Session(self._take_slot())
        fresh = list(request.ids[session.cached :])
        if not fresh:
            raise EngineError(f"session {request.session}: no new tokens to answer")
        if min(fresh) < 0 or max(fresh) >= self._decoder.shape.vocabulary:
            raise EngineError(
                f"session {request.session}: token ids {min(fresh)} to {max(fresh)} are not all in "
                f"the model's vocabulary of {self._decoder.shape.vocabulary}"
            )
        trie = node = None
        if request.admissible is not None:
            stop = request.sampling.stop[0]
            trie = trie_of(tuple(map(tuple, request.admissible)), stop)
            node = trie.root
        row = _Row(request, session, asyncio.get_running_loop().create_future(), fresh, trie, node)
        self._force(row)
        if not row.answer.done():
            self._ready.append(row)
            if self._pump is None or self._pump.done():
                self._pump = asyncio.create_task(self._run())
                self._pump.add_done_callback(self._ended)
        return await row.answer

    async def release(self, session: int) -> None:
        """Give the session's slot to the next one."""
        held = self._sessions.pop(session, None)
        if held is not None:
            self._free.append(held.slot)

    async def load(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Copy weights in. Waits for replies under way, which are sampled by the old version;
        requests that come meanwhile wait for the new one. Raises `EngineError` for weights that
        are not this model's."""
        while self._loading is not None:
            await self._loading.wait()
        self._loading = asyncio.Event()
        try:
            if self._pump is not None:
                await asyncio.wait([self._pump])
            self._copy(weights)
            self.renew(version)
        finally:
            self._loading.set()
            self._loading = None

    def _copy(self, weights: Mapping[str, Tensor]) -> None:
        try:
            missing, unknown = self._decoder.load_state_dict(dict(weights), strict=False)
        except RuntimeError as error:
            raise EngineError(f"the new weights do not fit the model: {error}") from error
        if self._decoder.shape.tied:
            unknown = [name for name in unknown if name != "lm_head.weight"]
        if missing or unknown:
            raise EngineError(
                f"the new weights are another model's; missing {missing[:3]}, unknown {unknown[:3]}"
            )

    def renew(self, version: int) -> None:
        """The decoder's weights have been changed in place: forget every cache."""
        self._version = version
        for session in self._sessions.values():
            session.cached = 0
        for row in self._ready:
            row.fresh = [*row.request.ids, *row.ids]

    async def close(self) -> None:
        """Stop the pump; replies under way fail."""
        if self._pump is not None and not self._pump.done():
            self._pump.cancel()
        for row in self._ready:
            if not row.answer.done():
                row.answer.set_exception(EngineError("the engine was closed"))
        self._ready.clear()

    def _take_slot(self) -> int:
        if self._free:
            return self._free.pop()
        self._slots += 1
        return self._slots - 1

    async def _run(self) -> None:
        """Forward passes for as long as there are rows. Between two, episodes go on."""
        while self._ready:
            # A row nobody waits for any more may have lost its slot to another session.
            rows = self._ready = [row for row in self._ready if not row.answer.done()]
            if not rows:
                break
            try:
                self._ready = [row for row in self._step(rows) if not row.answer.done()]
            except RuntimeError as error:  # torch's own, out of memory among them
                self._fail(EngineError(f"forward pass failed: {error}"))
            await asyncio.sleep(0)

    def _ended(self, pump: asyncio.Task[None]) -> None:
        """A bug in a step ends the pump: those who wait hear of it."""
        error = None if pump.cancelled() else pump.exception()
        if error is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Tell everybody who still waits."""
        rows, self._ready = self._ready, []
        for row in rows:
            if not row.answer.done():
                row.answer.set_exception(error)

    @torch.inference_mode()
    def _step(self, rows: Sequence[_Row]) -> Iterable[_Row]:
        """One forward pass over every fresh token, one new token for every row."""
        hidden_BE = self._forward(rows)
        chosen_B, logprobs_B = self._sample(rows, self._decoder.logits(hidden_BE))
        for row, token, logprob in zip(rows, chosen_B, logprobs_B, strict=False):
            row.session.cached += len(row.fresh)
            row.fresh = [token]
            row.ids.append(token)
            row.logprobs.append(logprob)
            row.sampled.append(True)
            if row.trie is not None and row.node is not None:
                row.allowed.append(row.trie.allowed(row.node))
                row.node = row.trie.advance(row.node, token)
            self._settle(row)
            self._force(row)
        return rows

    def _force(self, row: _Row) -> None:
        """Append the tokens that leave no choice: nothing is sampled, nothing will be trained."""
        if row.trie is None or row.node is None or row.answer.done():
            return
        for token in row.trie.forced(row.node):
            row.fresh.append(token)
            row.ids.append(token)
            row.logprobs.append(0.0)
            row.sampled.append(False)
            row.allowed.append((token,))
            row.node = row.trie.advance(row.node, token)
            self._settle(row)
            if row.answer.done():
                return

    def _settle(self, row: _Row) -> None:
        """Answer when the reply is over."""
        sampling = row.request.sampling
        stopped = row.ids[-1] in sampling.stop
        if row.answer.done() or not (stopped or len(row.ids) >= sampling.max_tokens):
            return
        row.answer.set_result(
            Generation(
                ids=tuple(row.ids),
                logprobs=tuple(row.logprobs),
                sampled=tuple(row.sampled),
                allowed=None if row.trie is None else tuple(row.allowed),
                stop=Stop.STOP if stopped else Stop.LENGTH,
                version=self._version,
            )
        )

    def _forward(self, rows: Sequence[_Row]) -> Tensor:
        """Hidden states [B or more, E] of each row's last token, the rest being repeats."""
        batch = Batch(
            sizes_B=np.array([len(row.fresh) for row in rows]),
            starts_B=np.array([row.session.cached for row in rows]),
            slots_B=np.array([row.session.slot for row in rows]),
            group=self._group,
            rows=self._rows,
        )
        self._cache.fit(max(batch.slots, self._slots), batch.tokens)
        ids = np.zeros(batch.size, dtype=np.int64)
        ids[: batch.real] = np.concatenate([row.fresh for row in rows])
        hidden_NE = self._decoder(
            self._to(ids),
            self._to(batch.positions_N),
            Cached(
                self._cache,
                self._to(batch.places(self._cache.tokens)),
                [self._bucket(rows) for rows in batch.likes()],
            ),
        )
        hidden_BE: Tensor = hidden_NE.index_select(0, self._to(batch.last_B))
        return hidden_BE

    def _bucket(self, rows: Likes) -> Bucket:
        slots = rows.slots_B
        return Bucket(
            slots_B=slots if isinstance(slots, slice) else self._to(slots),
            places_BL=self._to(rows.places_BL),
            mask_B1QT=self._to(np.tile(rows.mask_BLT, (1, self._group, 1))[:, None]),
            rows_N=self._to(rows.places_BL[rows.real_BL]),
            picks_N=self._to(np.flatnonzero(rows.real_BL.reshape(-1))),
        )

    def _sample(
        self, rows: Sequence[_Row], logits_BV: Tensor
    ) -> tuple[Sequence[int], Sequence[float]]:
        """A token and its log-probability for each row, under the distribution it was drawn
        from."""
        choices = [
            row.trie.allowed(row.node) if row.trie is not None and row.node is not None else None
            for row in rows
        ]
        logprobs_BV = distribution(logits_BV, [row.request.sampling for row in rows], choices)
        spare = len(logits_BV) - len(rows)
        draws = uniforms(
            np.array([row.request.seed for row in rows] + [0] * spare, dtype=np.uint64),
            np.array([len(row.ids) for row in rows] + [0] * spare, dtype=np.uint64),
        )
        greedy = [row.request.sampling.temperature == 0 for row in rows] + [True] * spare
        chosen_B = pick(logprobs_BV, self._to(draws), self._to(np.array(greedy)))
        picked_B = logprobs_BV.gather(1, chosen_B[:, None]).squeeze(1)
        return chosen_B.tolist(), picked_B.tolist()

    def _to(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(array).to(self._device, non_blocking=True)
