"""What vLLM is asked for, and what it answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agentrl_components.engines.engine import Sampling
from agentrl_components.errors import EngineError

ACTIONS = "admissible"
"""Key of `SamplingParams.extra_args`: token ids of the admissible replies without a stop token."""
START = "admissible_start"
"""Key of the number of tokens of the reply that are part of the prompt already."""

MIN_TEMPERATURE = 0.01
"""vLLM raises lower temperatures to this, and its log-probabilities are those at this one."""


class StopTokens(list[int]):
    """Stop tokens in their order, in which a token is found by its hash. vLLM looks for each token
    that it samples in the list of its request. With `template: react` a vocabulary such as that of
    Qwen2 has 2178 of them, which takes 50 µs in a plain list."""

    def __init__(self, tokens: Iterable[int]) -> None:
        super().__init__(tokens)
        self._found = frozenset(self)

    def __contains__(self, token: object) -> bool:
        return token in self._found


_stop_tokens = lru_cache(maxsize=8)(StopTokens)


def params_of(sampling: Sampling, seed: int, max_tokens: int) -> Any:
    """vLLM's `SamplingParams`. Raises `EngineError` if vLLM refuses them."""
    from vllm import SamplingParams
    from vllm.exceptions import VLLMValidationError
    from vllm.sampling_params import RequestOutputKind

    if 0 < sampling.temperature < MIN_TEMPERATURE:
        raise EngineError(f"vLLM needs temperature 0 or at least {MIN_TEMPERATURE}: {sampling}")
    try:
        params = SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=max_tokens,
            seed=seed & (1 << 63) - 1,  # torch generators take signed numbers
            stop_token_ids=list(sampling.stop),
            ignore_eos=True,  # replies end with `sampling.stop` only
            logprobs=0,  # of the sampled token only
            skip_clone=True,  # nothing else uses the object
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
    except VLLMValidationError as error:
        raise EngineError(f"vLLM refuses {sampling}: {error}") from error
    params.stop_token_ids = _stop_tokens(sampling.stop)  # the constructor makes a plain list
    return params


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """R tokens that vLLM has sampled."""

    ids: tuple[int, ...]  # [R]
    logprobs: tuple[float, ...]  # [R] nats
    versions: tuple[int, ...]  # [R]
    """Version of the weights that sampled each token."""
    stopped: bool
    """Whether they end with a stop token."""


def sampled(completion: Any, versions: Sequence[int]) -> Sampled:
    """The tokens of vLLM's `CompletionOutput`. `versions` are those of all weights so far; vLLM
    calls the weights that it has by their place there (`weights.use`)."""
    return Sampled(
        ids=tuple(completion.token_ids),
        logprobs=tuple(
            place[token].logprob
            for place, token in zip(completion.logprobs, completion.token_ids, strict=True)
        ),
        versions=tuple(
            versions[int(span.version)]
            for span in completion.weight_versions
            for _ in range(span.start, span.end)
        ),
        stopped=completion.finish_reason == "stop",
    )
