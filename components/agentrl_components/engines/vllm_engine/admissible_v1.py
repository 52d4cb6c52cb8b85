"""Admissible replies in one vLLM request, with model runner V1: a logits processor that walks the
trie of replies.

Before each token the processor masks every token id that the trie does not allow there, so vLLM
samples from the renormalised rest, and its log-probabilities (`processed_logprobs`) are those of
that distribution. When only one reply is left, the processor allows the stop token alone, which
ends the request: the engine appends the remaining tokens itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

from agentrl_components.engines.action_trie import Node, chooses, trie_of
from agentrl_components.engines.vllm_engine.sampling import ACTIONS, START


@dataclass(slots=True)
class _Row:
    """The place of one request of the batch in its trie."""

    node: Node
    stop: int
    output: list[int]
    """The request's tokens so far. vLLM appends to this list."""
    seen: int = 0
    """Tokens of `output` that led to `node`."""

    def allowed(self) -> list[int]:
        """Token ids that may come next."""
        while self.seen < len(self.output) and self.node:
            self.node = self.node.get(self.output[self.seen], {})
            self.seen += 1
        return list(self.node) if chooses(self.node) else [self.stop]


class AdmissibleReplies(LogitsProcessor):  # type: ignore[misc]
    """Implements the `LogitsProcessor` of model runner V1."""

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        del vllm_config, device, is_pin_memory
        self._rows: dict[int, _Row] = {}

    def is_argmax_invariant(self) -> bool:
        """False: the most likely token may be masked."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow requests that join, leave or move within the batch."""
        process_dict_updates(self._rows, batch_update, _row)

    def apply(self, logits: Tensor) -> Tensor:
        """Mask [B, V] in place what the tries of the rows do not allow."""
        if not self._rows:
            return logits
        allowed = {row: state.allowed() for row, state in self._rows.items()}
        rows = torch.tensor([row for row, ids in allowed.items() for _ in ids])
        columns = torch.tensor([token for ids in allowed.values() for token in ids])
        places = rows.to(logits.device), columns.to(logits.device)
        kept = logits[places]
        logits[torch.tensor(list(allowed)).to(logits.device)] = -torch.inf
        logits[places] = kept
        return logits


def _row(params: Any, prompt: list[int] | None, output: list[int]) -> _Row | None:
    """The state of a request that joins the batch. None: it is not restricted."""
    given = params.extra_args or {}
    if ACTIONS not in given:
        return None
    assert prompt is not None  # requests are token ids
    stop = params.stop_token_ids[0]
    trie = trie_of(tuple(map(tuple, given[ACTIONS])), stop)
    start = given[START]
    return _Row(trie.at(prompt[len(prompt) - start :]), stop, output)
