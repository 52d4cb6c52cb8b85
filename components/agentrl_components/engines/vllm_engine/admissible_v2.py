"""Admissible replies in one vLLM request, with model runner V2.

V2 prepares a step before the host has the tokens of the one before, so a trie cannot be walked on
the host. Instead a table of the admissible replies of each request is on the device, and in each
step all of them are compared with the reply so far. The result does not depend on earlier steps:
a request that is preempted and comes back needs no care.

Legend: N slots for requests; R rows of a step; A replies; L tokens of a reply; V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from vllm.utils.torch_utils import async_tensor_h2d
from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor

from agentrl_components.engines.action_cache import ActionCache, Actions
from agentrl_components.engines.vllm_engine.sampling import ACTIONS, START

NONE = -1
"""In the place of a token where a reply has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """What a request that joins the batch has in its slot."""

    replies_AL: NDArray[np.int32] | None
    """None: it is not restricted."""
    start: int
    """Place of the first token of the reply among the tokens of the request."""
    stop: int


class AdmissibleSlots(LogitsProcessor):  # type: ignore[misc]
    """Implements the `LogitsProcessor` of model runner V2.

    Tables are allocated when the first request needs them: vLLM makes processors in the memory that
    it has for weights, whose contents are lost while it sleeps."""

    _replies_NAL: Tensor
    _start_N: Tensor
    _stop_N: Tensor
    _restricted_N: Tensor

    def __init__(self, vllm_config: Any, req_states: Any) -> None:
        del vllm_config
        self._requests = req_states
        self._device = req_states.device
        self._staged: dict[int, _Entry] = {}
        """Of slots that have not been written to the device yet."""
        self._restricted: NDArray[np.bool_] = np.zeros(req_states.max_num_reqs, dtype=bool)
        """[N] on the host."""
        self._allocated = False

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Note what the request has in its slot. Returns whether it is restricted."""
        given = sampling_params.extra_args or {}
        restricted = ACTIONS in given
        replies_AL, stop, start = None, 0, 0
        if restricted:
            stop = sampling_params.stop_token_ids[0]
            replies_AL = _cached_replies(tuple(map(tuple, given[ACTIONS])), stop)
            start = int(self._requests.prompt_len.np[req_idx]) - given[START]
        if restricted or self._restricted[req_idx]:
            self._staged[req_idx] = _Entry(replies_AL=replies_AL, start=start, stop=stop)
        self._restricted[req_idx] = restricted
        return restricted

    def apply_staged_writes(self) -> None:
        """Write the slots of requests that joined the batch to the device."""
        if not self._staged:
            return
        if not self._allocated:
            self._allocate()
        staged, self._staged = self._staged, {}
        tables = [one.replies_AL for one in staged.values() if one.replies_AL is not None]
        sizes = [self._replies_NAL.shape[1:], *(table.shape for table in tables)]
        actions, length = (max(size) for size in zip(*sizes, strict=True))
        self._grow(actions, length)
        replies_SAL = np.full((len(staged), actions, length), NONE, dtype=np.int32)
        for place, one in enumerate(staged.values()):
            if one.replies_AL is not None:
                height, width = one.replies_AL.shape
                replies_SAL[place, :height, :width] = one.replies_AL
        numbers_S4 = [
            (slot, one.start, one.stop, one.replies_AL is not None) for slot, one in staged.items()
        ]
        # From pinned memory: otherwise the host would wait until the device has done the last step.
        slots_S, start_S, stop_S, restricted_S = async_tensor_h2d(
            np.array(numbers_S4, dtype=np.int64).T, self._device
        )
        self._replies_NAL[slots_S] = async_tensor_h2d(replies_SAL, self._device)
        self._start_N[slots_S] = start_S
        self._stop_N[slots_S] = stop_S
        self._restricted_N[slots_S] = restricted_S.bool()

    def apply(self, logits: Tensor, ctx: Any) -> Tensor:
        """Mask [R, V] in place what the admissible replies of the rows do not allow: all but the
        next tokens of those that begin with the reply so far, and all but the stop token once
        a single one is left. Nothing here waits for the device."""
        if not self._restricted[ctx.idx_mapping_np].any():
            return logits
        slots_R = ctx.expanded_idx_mapping.long()
        replies_RAL, start_R = self._replies_NAL[slots_R], self._start_N[slots_R]
        known_R = ctx.pos + 1 - start_R  # tokens of the reply so far
        place_L = torch.arange(replies_RAL.shape[-1], device=logits.device)
        ids_NT = self._requests.all_token_ids.gpu
        among_RL = (start_R[:, None] + place_L).clamp(max=ids_NT.shape[1] - 1)
        ids_RL = ids_NT[slots_R[:, None], among_RL]
        equal_RAL = replies_RAL == ids_RL[:, None]
        later_RL = place_L >= known_R[:, None]
        left_RA = (equal_RAL | later_RL[:, None]).all(-1) & (replies_RAL[..., 0] != NONE)
        next_R = known_R.clamp(0, len(place_L) - 1)
        tokens_RA = replies_RAL.gather(2, next_R[:, None, None].expand(*left_RA.shape, 1))[..., 0]
        choice_R1 = left_RA.sum(-1, keepdim=True) > 1
        one_R1 = tokens_RA.gather(1, left_RA.int().argmax(-1, keepdim=True))
        other_R1 = torch.where(choice_R1, one_R1, self._stop_N[slots_R][:, None])
        # Replies that are not left repeat a token that is allowed.
        allowed_RA = torch.where(left_RA & choice_R1, tokens_RA, other_R1).clamp(min=0)
        kept_RA = logits.gather(1, allowed_RA)
        logits.masked_fill_(self._restricted_N[slots_R][:, None], -torch.inf)
        return logits.scatter_(1, allowed_RA, kept_RA)

    def _allocate(self) -> None:
        """Make the tables, in which no slot is restricted."""
        self._allocated, slots = True, len(self._restricted)
        self._replies_NAL = self._table(slots, 1, 1)
        self._start_N, self._stop_N, self._restricted_N = (
            torch.zeros(slots, dtype=kind, device=self._device)
            for kind in (torch.int64, torch.int64, torch.bool)
        )

    def _grow(self, actions: int, length: int) -> None:
        """Make room for tables of that size."""
        slots, height, width = self._replies_NAL.shape
        if (height, width) != (actions, length):
            larger = self._table(slots, actions, length)
            larger[:, :height, :width] = self._replies_NAL
            self._replies_NAL = larger

    def _table(self, slots: int, actions: int, length: int) -> Tensor:
        return torch.full((slots, actions, length), NONE, dtype=torch.int32, device=self._device)


def _replies(actions: Actions, stop: int) -> NDArray[np.int32]:
    """The different replies [A, L], each with the stop token at its end."""
    replies = [(*action, stop) for action in dict.fromkeys(actions)]
    table_AL = np.full((len(replies), max(map(len, replies))), NONE, dtype=np.int32)
    for row_L, reply in zip(table_AL, replies, strict=True):
        row_L[: len(reply)] = reply
    return table_AL


_cached_replies = ActionCache(_replies)
