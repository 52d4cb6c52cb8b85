"""vLLM as an `Engine`, in this process, on CPU or one GPU.

Requests and replies are token ids. Log-probabilities are those of the sampled distribution. Earlier
turns of an episode are read from vLLM's prefix cache, in whole blocks.

Seeds are per request, but rounding may depend on the rest of the batch, so a reply is repeatable
unless a random number falls within a rounding error of a boundary.

New weights drop all cached keys and values, also those of replies that go on (`continue`): vLLM
reads prompt and reply again before it samples the next token, so every log-probability is that of
the weights of its version alone.

An admissible reply is one request: a logits processor (`admissible_v1`, `admissible_v2`) restricts
its tokens. Tokens that are forced at its beginning or end are appended without vLLM.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentrl_components.engines.action_trie import open_trie
from agentrl_components.engines.engine import Generation, Request, Stop, mixed
from agentrl_components.engines.vllm_engine import weights as loading
from agentrl_components.engines.vllm_engine.draft import Draft
from agentrl_components.engines.vllm_engine.loop import VllmLoop
from agentrl_components.engines.vllm_engine.sampling import (
    ACTIONS,
    START,
    Sampled,
    params_of,
    sampled,
)
from agentrl_components.engines.vllm_engine.start import VllmOptions, start_vllm, stop_vllm
from agentrl_components.engines.weight_change import WeightChange
from agentrl_components.errors import EngineError, WorkersLostError
from agentrl_components.spec.fields.rollout import Interrupt

if TYPE_CHECKING:
    import torch


class VllmEngine:
    """Implements `Engine` with vLLM. Serves one event loop."""

    def __init__(
        self,
        folder: Path,
        options: VllmOptions,
        version: int = 0,
        start: Callable[[Path, VllmOptions], Any] = start_vllm,
    ) -> None:
        """Start vLLM with the model in `folder`, in transformers' layout.

        Blocks for seconds to a minute. A process can have one engine at a time. Raises what
        `start_vllm` raises.
        """
        self._loop = VllmLoop(partial(start, folder, options))
        self._shapes = loading.stored_shapes(folder)
        self._required = loading.required_names(folder, self._shapes)
        self._versions = [version]
        """Versions of all weights so far; the last is in use."""
        self._load_lock = asyncio.Lock()
        self._updated: set[str] = set()
        """Weights that need not be loaded before `finish_update`, or have been."""
        self._asleep = False
        self._pending: set[asyncio.Task[Generation]] = set()
        self.prompt_tokens = 0
        """Prompt tokens of all requests to vLLM so far."""
        self.cached_tokens = 0
        """The tokens that were read from the prefix cache."""

    async def generate(self, request: Request) -> Generation:
        """One reply, which joins the batch at the next step. Waits while weights are loaded; if
        they `abort` the reply, it starts again."""
        while True:
            async with self._load_lock:
                if self._asleep:
                    raise EngineError("vLLM sleeps until weights are loaded")
                sample = self._unrestricted if request.admissible is None else self._restricted
                reply = asyncio.create_task(sample(request))
                self._pending.add(reply)
                reply.add_done_callback(self._pending.discard)
            try:
                return await reply
            except asyncio.CancelledError:
                caller = asyncio.current_task()
                if caller is None or caller.cancelling():
                    raise

    async def release(self, session: int) -> None:
        """Does nothing: vLLM reuses the least recently used cache blocks."""
        del session

    async def load(
        self,
        weights: Mapping[str, torch.Tensor],
        version: int,
        interrupt: Interrupt = "finish",
    ) -> None:
        """`start_update`, `update` and `finish_update` in one call.

        `weights` has every weight under the name that transformers uses. The tensors may be changed
        after the call.

        Raises:
            EngineError: names or shapes do not fit. If that was found before loading began, the old
                weights stay in use, otherwise every later request fails.
            WorkersLostError: vLLM has failed, on its device or in a process, and every later
                request fails.
        """
        loading.check(self._shapes, self._required, weights)
        await self.start_update(interrupt)
        await self.update(weights)
        await self.finish_update(version)

    async def start_update(self, interrupt: Interrupt = "finish", *, changes: bool = False) -> None:
        """Begin to load new weights in parts: all of them, or with `changes` changes alone. Pending
        replies are finished with the old weights first; or they wait for the new ones, and then go
        on or start again, as `interrupt` says. New requests wait until `finish_update`."""
        await self._load_lock.acquire()
        await self._interrupt(interrupt)
        self._updated = set(self._required) if changes else set()
        if self._asleep:
            await self._load_step(loading.wake)
        await self._load_step(loading.start)

    async def update(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Copy some of the new weights into vLLM. Raises `EngineError` if they do not fit, and
        `WorkersLostError` if vLLM has failed; then every later request fails too."""
        self._updated |= weights.keys()
        await self._load_step(partial(loading.load_part, self._shapes, weights))

    async def change(self, changes: Collection[WeightChange]) -> None:
        """Write new values of some entries of weights. Raises what `update` raises."""
        await self._load_step(partial(loading.load_changes, self._shapes, changes))

    async def receive_update(self, described: Mapping[str, Any]) -> None:
        """Receive new weights or changes over NCCL, as vLLM's NCCL backends describe them."""
        self._updated |= set(described["names"])
        await self._load_step(partial(loading.receive, described))

    async def finish_update(self, version: int) -> None:
        """Use the new weights from now on. Raises `EngineError` if some were not loaded; then every
        later request fails too."""
        label = str(len(self._versions))
        await self._load_step(partial(loading.finish, self._required, self._updated, label))
        if self._asleep:
            await self._load_step(loading.wake_cache)
            self._asleep = False
        self._versions.append(version)
        self._go_on()

    async def drop_update(self) -> None:
        """End an update under way, if there is one, without its other weights. Those that were
        loaded stay, so replies belong to no version until the next update ends. Raises
        `EngineError` or `WorkersLostError` if loading has failed."""
        self._loop.check()
        if self._load_lock.locked():
            await self._load_step(loading.end)
            self._go_on()

    async def sleep(self, *, keeps_weights: bool = False) -> None:
        """Give the device memory of weights and cache back, until weights or adapters are loaded:
        then the engine is awake. Waits for pending replies. `keeps_weights`: the weights are copied
        to the host, because adapters alone will be loaded. Needs `VllmOptions.sleeps`."""
        async with self._load_lock:
            if self._pending:
                await asyncio.wait(self._pending)
            if not self._asleep:
                await self._loop.call(partial(loading.sleep, keeps_weights))
                self._asleep = True

    def use_as(self, version: int) -> None:
        """Call the weights that are loaded now `version`."""
        self._versions[-1] = version

    async def use_adapters(
        self, folder: Path, version: int, interrupt: Interrupt = "finish"
    ) -> None:
        """Add the adapters in `folder`, which has peft's layout, to the weights from now on, in the
        place of earlier ones. Pending replies are treated as `start_update` treats them. Raises
        `EngineError` if the adapters do not fit; then every later request fails too."""
        await self._load_lock.acquire()
        await self._interrupt(interrupt)
        if self._asleep:
            await self._load_step(loading.wake)
            await self._load_step(loading.wake_cache)
            self._asleep = False
        await self._load_step(partial(self._loop.use_adapters, folder))
        await self._load_step(partial(loading.use, str(len(self._versions))))
        self._versions.append(version)
        self._go_on()

    async def join_nccl(self, group: Mapping[str, Any]) -> None:
        """Join the process group over which weights are received. Raises `WorkersLostError` if it
        is not formed."""
        try:
            await self._loop.call(partial(loading.join, group))
        except loading.FAILURES as error:
            raise WorkersLostError(f"vLLM cannot join the trainers' group: {error}") from error

    async def _interrupt(self, how: Interrupt) -> None:
        """Wait until vLLM works on no reply: none is left, or they pause."""
        if how == "continue":
            self._loop.pause()
            return
        if how == "abort":
            for reply in self._pending:
                reply.cancel()
        if self._pending:
            await asyncio.wait(self._pending)

    def _go_on(self) -> None:
        """Let replies and requests go on."""
        self._loop.resume()
        self._load_lock.release()

    async def _load_step(self, step: Callable[[Any], None]) -> None:
        try:
            await self._loop.call(step)
        except (*loading.MISFITS, *loading.FAILURES) as error:
            failed = self._loop.has_lost_worker or isinstance(error, loading.FAILURES)
            kind = WorkersLostError if failed else EngineError
            failure = kind(f"vLLM cannot load new weights: {error}")
            self._loop.fail(failure)
            self._load_lock.release()
            raise failure from error

    async def close(self) -> None:
        """Stop vLLM and its thread. Pending replies fail with `EngineError`."""
        await self._loop.close(stop_vllm)

    async def _unrestricted(self, request: Request) -> Generation:
        sampling = request.sampling
        params = params_of(sampling, request.seed, sampling.max_tokens)
        reply = await self._sample(list(request.ids), params)
        return Generation(
            ids=reply.ids,
            logprobs=reply.logprobs,
            sampled=(True,) * len(reply.ids),
            allowed=None,
            stop=Stop.STOP if reply.stopped else Stop.LENGTH,
            version=reply.versions[0],
            versions=mixed(reply.versions),
        )

    async def _restricted(self, request: Request) -> Generation:
        trie = open_trie(request)
        draft, limit = Draft(request, trie, self._versions[-1]), request.sampling.max_tokens
        draft.force()
        start = len(draft.ids)
        if draft.stop is None:
            tokens = min(trie.choice_depth, limit) - start
            params = params_of(request.sampling, request.seed, tokens)
            params.extra_args = {ACTIONS: request.admissible, START: start}
            reply = await self._sample([*request.ids, *draft.ids], params)
            while draft.stop is None:
                place = len(draft.ids) - start
                draft.version = reply.versions[place]
                draft.append(reply.ids[place], reply.logprobs[place], draft.choices())
                draft.force()
        return draft.generation()

    async def _sample(self, ids: list[int], params: Any) -> Sampled:
        """The tokens that vLLM samples after `ids`."""
        output = await self._loop.sample(ids, params)
        self.prompt_tokens += len(ids)
        self.cached_tokens += output.num_cached_tokens or 0
        (completion,) = output.outputs
        return sampled(completion, self._versions)
