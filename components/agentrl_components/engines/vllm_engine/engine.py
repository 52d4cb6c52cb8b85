"""vLLM as an `Engine`: the sampler of real sizes, in this process, on CPU or one GPU.

Token ids go in and come out; no text passes through. Log-probabilities are of the distribution that
was sampled. What an episode has already said stays in vLLM's prefix cache between its turns, in
whole blocks.

A reply depends on its own request: seeds are per request. Its last bits may still differ with what
else is in the batch, so a reply repeats exactly unless a draw falls within a rounding error.

Admissible replies are sampled choice by choice: where the trie of what is admitted leaves one token
it is written without asking the model; where it leaves several, vLLM samples one token among them,
its prompt being served from the prefix cache.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentrl_components.engines.action_trie import Trie, trie_of
from agentrl_components.engines.engine import Generation, Request, Sampling, Stop
from agentrl_components.engines.vllm_engine.loop import VllmLoop
from agentrl_components.engines.vllm_engine.start import VllmOptions, start_vllm, stop_vllm
from agentrl_components.engines.vllm_engine.weights import REFUSALS, check, reload, shapes_in
from agentrl_components.errors import EngineError
from agentrl_components.schedule.seeds import derive

if TYPE_CHECKING:
    import torch

COLDEST = 0.01
"""vLLM would raise a lower temperature to this, and report log-probabilities of that."""


class VllmEngine:
    """An `Engine` over vLLM. Serves one event loop."""

    def __init__(self, folder: Path, options: VllmOptions, version: int = 0) -> None:
        """Start from the config and weights in `folder`, as transformers saves them.

        Blocks while vLLM is imported and started: seconds to a minute; one engine at a time in a
        process. Raises `ModelError` or `EngineError`.
        """
        self._loop = VllmLoop(partial(start_vllm, folder, options))
        self._shapes = shapes_in(folder)
        self._version = version
        self._turnstile = asyncio.Lock()
        self._replies: set[asyncio.Task[Generation]] = set()
        self.prompt_tokens = 0
        """Prompt tokens of every vLLM request so far."""
        self.cached_tokens = 0
        """How many of them the prefix cache held."""

    async def generate(self, request: Request) -> Generation:
        """One reply; it joins the batch at the next step. Waits while weights are loaded."""
        async with self._turnstile:
            reply = asyncio.create_task(
                self._free(request) if request.admissible is None else self._confined(request)
            )
            self._replies.add(reply)
            reply.add_done_callback(self._replies.discard)
        return await reply

    async def release(self, session: int) -> None:
        """Nothing to do: vLLM reuses the blocks that were used longest ago."""
        del session

    async def load(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        """Copy weights in. Waits for replies under way; they were sampled by the old version.

        `weights` is named as transformers names them and holds every weight; the tensors may change
        again once this returns. Raises `EngineError`: when names or shapes do not fit, the old
        weights stay; when vLLM itself refuses, every later request fails.
        """
        check(self._shapes, weights, version)
        async with self._turnstile:
            if self._replies:
                await asyncio.wait(self._replies)
            try:
                await self._loop.call(partial(reload, weights))
            except REFUSALS as error:
                raise EngineError(f"vLLM cannot load version {version}: {error!r}") from error
            self._version = version

    async def close(self) -> None:
        """Stop vLLM and its thread; replies under way fail."""
        await self._loop.close(stop_vllm)

    async def _free(self, request: Request) -> Generation:
        version, sampling = self._version, request.sampling
        params = _params(sampling, request.seed, sampling.max_tokens, None)
        ids, logprobs, stopped = await self._sample(list(request.ids), params)
        return Generation(
            ids=ids,
            logprobs=logprobs,
            sampled=(True,) * len(ids),
            allowed=None,
            stop=Stop.STOP if stopped else Stop.LENGTH,
            version=version,
        )

    async def _confined(self, request: Request) -> Generation:
        draft = _Draft(request, _trie(request))
        version = self._version
        draft.force()
        while draft.stop is None:
            choices = draft.choices()
            seed = derive(request.seed, "token", len(draft.ids))
            params = _params(request.sampling, seed, 1, choices)
            ids, logprobs, _ = await self._sample([*request.ids, *draft.ids], params)
            draft.append(ids[0], logprobs[0], choices)
            draft.force()
        return Generation(
            ids=tuple(draft.ids),
            logprobs=tuple(draft.logprobs),
            sampled=tuple(len(choices) > 1 for choices in draft.allowed),
            allowed=tuple(draft.allowed),
            stop=draft.stop,
            version=version,
        )

    async def _sample(
        self, ids: list[int], params: Any
    ) -> tuple[tuple[int, ...], tuple[float, ...], bool]:
        """Ids and log-probabilities that follow `ids`, and whether a stop token ended them."""
        output = await self._loop.sample(ids, params)
        self.prompt_tokens += len(ids)
        self.cached_tokens += output.num_cached_tokens or 0
        (reply,) = output.outputs
        logprobs = tuple(
            place[token].logprob
            for place, token in zip(reply.logprobs, reply.token_ids, strict=True)
        )
        return tuple(reply.token_ids), logprobs, reply.finish_reason == "stop"


@dataclass(slots=True)
class _Draft:
    """An admissible reply in the making."""

    request: Request
    trie: Trie
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    allowed: list[tuple[int, ...]] = field(default_factory=list)
    stop: Stop | None = None
    """Why it ended; None while it goes on."""

    def choices(self) -> tuple[int, ...]:
        """Tokens that may come next."""
        return self.trie.allowed(self.trie.at(self.ids))

    def force(self) -> None:
        """Append the tokens that leave no choice, unless the reply has ended."""
        for token in self.trie.forced(self.trie.at(self.ids)):
            if self.stop is None:
                self.append(token, 0.0, (token,))

    def append(self, token: int, logprob: float, choices: tuple[int, ...]) -> None:
        """One more token."""
        self.ids.append(token)
        self.logprobs.append(logprob)
        self.allowed.append(choices)
        if token in self.request.sampling.stop:
            self.stop = Stop.STOP
        elif len(self.ids) >= self.request.sampling.max_tokens:
            self.stop = Stop.LENGTH


def _trie(request: Request) -> Trie:
    if not request.sampling.stop:
        raise EngineError("admissible replies need a stop token to end with")
    try:
        return trie_of(tuple(map(tuple, request.admissible or ())), request.sampling.stop[0])
    except ValueError as error:
        raise EngineError(f"session {request.session}: {error}") from error


def _params(sampling: Sampling, seed: int, max_tokens: int, allowed: tuple[int, ...] | None) -> Any:
    from vllm import SamplingParams
    from vllm.exceptions import VLLMValidationError
    from vllm.sampling_params import RequestOutputKind

    if 0 < sampling.temperature < COLDEST:
        raise EngineError(f"vLLM samples at temperature 0 or from {COLDEST}: {sampling}")
    try:
        return SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=max_tokens,
            seed=seed & (1 << 63) - 1,  # a torch generator takes a signed number
            stop_token_ids=list(sampling.stop),
            ignore_eos=True,  # what ends a reply is `sampling.stop` alone
            logprobs=0,  # of the sampled token only
            allowed_token_ids=None if allowed is None else list(allowed),
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
    except VLLMValidationError as error:
        raise EngineError(f"vLLM refuses {sampling}: {error}") from error
