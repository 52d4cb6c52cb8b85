"""How functions of a model are computed: by torch.compile, and with a backward pass that computes
again what takes little time."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

P = ParamSpec("P")
R = TypeVar("R")

KEPT = frozenset(
    {
        "aten::mm",
        "aten::addmm",
        "aten::rsqrt",  # of a norm: one number for each row, which would take a pass over it
        "aten::_scaled_dot_product_cudnn_attention",
        "aten::_scaled_dot_product_flash_attention",
        "aten::_scaled_dot_product_efficient_attention",
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        "torch_attn::_varlen_attn",
    }
)
"""Operations whose results `selectively` keeps."""

# Inside of torch.compile it warns of functions that write in place, of which there are none here.
logging.getLogger("torch._higher_order_ops.wrap").setLevel(logging.ERROR)


def chosen(function: Callable[P, R], *, compiled: bool) -> Callable[P, R]:
    """`function`, or a compiled form of it whose results differ by rounding.

    It is compiled at its first call, which takes seconds to a minute, for any number of tokens."""
    return _compiled(function) if compiled else function


@functools.cache
def _compiled(function: Callable[P, R]) -> Callable[P, R]:
    compiled: Callable[P, R] = torch.compile(function, dynamic=True)
    return compiled


def selectively(function: Callable[..., R], *inputs: Any) -> R:
    """Call `function` and return its result, with selective activation checkpointing (arXiv
    2205.05198): only results of matrix products and attention are kept for the backward pass.
    Normalisation, rotations and gates are recomputed; they cost little.

    Works inside and outside of torch.compile. The function must not draw random numbers."""
    result: R = checkpoint(
        function, *inputs, use_reentrant=False, preserve_rng_state=False, context_fn=_contexts
    )
    return result


def _policy(context: object, operation: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    del context, args, kwargs
    kept = operation.name().partition(".")[0] in KEPT
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


_contexts = functools.partial(create_selective_checkpoint_contexts, _policy)
