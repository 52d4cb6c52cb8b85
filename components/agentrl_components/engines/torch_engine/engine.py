"""Continuous batching in PyTorch: the sampling engine for laptops and tests.

New observations and next tokens of all sessions share one forward pass. Keys and values of a
session stay cached between its turns, and no session waits for another.

On CPU a reply depends on its own request only and not on the rest of the batch, bit for bit: every
number of a token is computed in an order that does not depend on other tokens, and the random
number of a token is a hash of the request's seed and the token's index (docs/determinism.md;
`tests/components/engines/torch_engine/test_bits.py`).

Legend: B rows, V vocabulary.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentrl_components.engines.action_trie import open_trie
from agentrl_components.engines.engine import Generation, Request
from agentrl_components.engines.torch_engine.loading import Loading
from agentrl_components.engines.torch_engine.passes import ForwardPasses
from agentrl_components.engines.torch_engine.reply import PendingReply, Session
from agentrl_components.engines.torch_engine.sampling import distribution, pick, uniforms
from agentrl_components.engines.torch_engine.session_passes import SessionPasses
from agentrl_components.engines.torch_engine.slot_passes import SlotPasses
from agentrl_components.engines.weight_change import WeightChange
from agentrl_components.errors import EngineError
from agentrl_components.model.causal_model import CausalModel
from agentrl_components.model.foreign.model import ForeignModel
from agentrl_components.spec.fields.rollout import Interrupt


class TorchEngine:
    """Implements `Engine` with a `CausalModel` in this process. Serves one event loop."""

    def __init__(self, decoder: CausalModel, version: int = 0) -> None:
        self._decoder = decoder
        self._version = version
        self._sessions: dict[int, Session] = {}
        self._free_slots: list[int] = []
        self._ready: list[PendingReply] = []
        self._stepping: asyncio.Task[None] | None = None
        self._device = decoder.device
        self._passes: ForwardPasses = (
            SessionPasses(decoder) if isinstance(decoder, ForeignModel) else SlotPasses(decoder)
        )
        self._loading: Loading | None = None
        """New weights that are being loaded."""
        self._slots = 0
        """Slots given out so far."""
        self.prompt_tokens = 0
        """Prompt tokens of all requests so far."""
        self.cached_tokens = 0
        """The tokens whose keys were in the cache."""

    async def generate(self, request: Request) -> Generation:
        """One reply, which joins the batch at the next forward pass.

        Raises:
            EngineError: the request has no new tokens, a token id is not in the vocabulary, the
                admissible set cannot be used, or the forward pass failed.
        """
        while self._loading is not None:
            await self._loading.ended.wait()
        session = self._sessions.get(request.session)
        cached = 0 if session is None else session.cached
        fresh = list(request.ids[cached:])
        self._check(request.session, fresh)
        trie = None if request.admissible is None else open_trie(request)
        if session is None:
            session = self._sessions[request.session] = Session(self._take_slot())
        self.prompt_tokens += len(request.ids)
        self.cached_tokens += cached
        reply = PendingReply(
            request=request,
            session=session,
            result=asyncio.get_running_loop().create_future(),
            version=self._version,
            fresh=fresh,
            trie=trie,
            node=None if trie is None else trie.root,
        )
        reply.append_forced()
        if not reply.result.done():
            self._ready.append(reply)
            if self._stepping is None or self._stepping.done():
                self._stepping = asyncio.create_task(self._run())
                self._stepping.add_done_callback(self._stepping_ended)
        return await reply.result

    async def release(self, session: int) -> None:
        """Free the session's cache slot."""
        held = self._sessions.pop(session, None)
        if held is not None:
            self._passes.release(held.slot)
            self._free_slots.append(held.slot)

    async def load(
        self, weights: Mapping[str, Tensor], version: int, interrupt: Interrupt = "finish"
    ) -> None:
        """`start_update`, `update` and `finish_update` in one call. Raises `EngineError` if the
        weights do not fit the model."""
        await self.start_update(interrupt)
        await self.update(weights)
        await self.finish_update(version)

    async def start_update(self, interrupt: Interrupt = "finish", *, partial: bool = False) -> None:
        """Begin to load new weights in parts: all weights, or with `partial` only some. Pending
        replies are finished with the old weights first; or they wait for the new ones, and then go
        on or start again, as `interrupt` says. Requests that arrive before `finish_update` wait for
        it."""
        while self._loading is not None:
            await self._loading.ended.wait()
        self._loading = Loading(self._decoder, interrupt, partial=partial)
        if self._stepping is not None and interrupt == "finish":
            await asyncio.wait([self._stepping])

    async def update(self, weights: Mapping[str, Tensor]) -> None:
        """Copy some of the new weights into the decoder. Raises `EngineError` if they do not fit
        the model, which ends the update."""
        assert self._loading is not None
        with self._ended_by_error(self._loading):
            self._loading.copy(weights)

    async def change(self, changes: Collection[WeightChange]) -> None:
        """Write new values of some entries of weights. Raises `EngineError` if they do not fit the
        model, which ends the update."""
        assert self._loading is not None
        with self._ended_by_error(self._loading):
            self._loading.change(changes)

    async def finish_update(self, version: int) -> None:
        """Use the new weights, which are those of `version`, from now on. Raises `EngineError` if
        some are missing."""
        loading = self._loading
        assert loading is not None
        with self._ended_by_error(loading):
            loading.check_complete()
        self.use_as(version, start_again=loading.interrupt == "abort")
        self._end_update(loading)

    async def drop_update(self) -> None:
        """End an update under way, if there is one, without its other weights. Those that were
        copied stay, so replies belong to no version until the next update ends."""
        if self._loading is not None:
            self._end_update(self._loading)

    def use_as(self, version: int, *, start_again: bool = False) -> None:
        """Use the decoder's weights, which may have been changed in place, as those of `version`:
        cached keys and values are dropped. Pending replies go on with them, or `start_again`."""
        self._version = version
        self._passes.forget_weights()
        for session in self._sessions.values():
            session.forget()
        for reply in self._ready:
            if start_again:
                reply.start_again(version)
            else:
                reply.go_on(version)

    async def close(self) -> None:
        """Stop sampling; pending replies fail with `EngineError`."""
        if self._stepping is not None and not self._stepping.done():
            self._stepping.cancel()
        self._fail(EngineError("the engine was closed"))

    def _check(self, session: int, fresh: Sequence[int]) -> None:
        if not fresh:
            raise EngineError(f"session {session}: the request has no new tokens")
        vocabulary = self._decoder.shape.vocabulary
        if min(fresh) < 0 or max(fresh) >= vocabulary:
            raise EngineError(
                f"session {session}: token ids {min(fresh)} to {max(fresh)} are not all in the "
                f"model's vocabulary of {vocabulary}"
            )

    @contextmanager
    def _ended_by_error(self, loading: Loading) -> Iterator[None]:
        try:
            yield
        except EngineError:
            self._end_update(loading)
            raise

    def _end_update(self, loading: Loading) -> None:
        self._loading = None
        loading.ended.set()

    def _take_slot(self) -> int:
        if self._free_slots:
            return self._free_slots.pop()
        self._slots += 1
        return self._slots - 1

    async def _run(self) -> None:
        """Run forward passes while there are pending replies, and yield to the loop after each.
        Pauses while new weights are loaded that pending replies wait for."""
        while self._ready:
            while self._loading is not None and self._loading.interrupt != "finish":
                await self._loading.ended.wait()
            # A cancelled request's slot may already belong to another session.
            replies = self._ready = [r for r in self._ready if not r.result.done()]
            if not replies:
                break
            try:
                self._step(replies)
                self._ready = [r for r in replies if not r.result.done()]
            except RuntimeError as error:  # raised by torch, for instance when out of memory
                self._fail(EngineError(f"forward pass failed: {error}"))
            await asyncio.sleep(0)

    def _stepping_ended(self, task: asyncio.Task[None]) -> None:
        """Pass an unexpected error of `_run` on to all pending replies."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        replies, self._ready = self._ready, []
        for reply in replies:
            if not reply.result.done():
                reply.result.set_exception(error)

    @torch.inference_mode()
    def _step(self, replies: Sequence[PendingReply]) -> None:
        """One forward pass over all new tokens, and one sampled token for every reply."""
        logits_BV = self._passes.logits([r.fresh for r in replies], [r.session for r in replies])
        chosen_B, logprobs_B = self._sample(replies, logits_BV)
        for reply, token, logprob in zip(replies, chosen_B, logprobs_B, strict=True):
            reply.append_sampled(token, logprob)

    def _sample(
        self, replies: Sequence[PendingReply], logits_BV: Tensor
    ) -> tuple[Sequence[int], Sequence[float]]:
        """A token for each row and its log-probability under the sampled distribution."""
        logprobs_BV = distribution(
            logits_BV, [r.request.sampling for r in replies], [r.choices() for r in replies]
        )
        draws = uniforms(
            np.array([r.request.seed for r in replies], dtype=np.uint64),
            np.array([len(r.ids) for r in replies], dtype=np.uint64),
        )
        greedy = [r.request.sampling.temperature == 0 for r in replies]
        chosen_B = pick(logprobs_BV, self._tensor(draws), self._tensor(np.array(greedy)))
        picked_B = logprobs_BV.gather(1, chosen_B[:, None]).squeeze(1)
        return chosen_B.tolist(), picked_B.tolist()

    def _tensor(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(array).to(self._device, non_blocking=True)
