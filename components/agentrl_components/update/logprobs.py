"""Log-probabilities and entropies of sampled tokens, without materialising all logits.

Only the hidden states that predict a sampled token pass through the language-model head, one chunk
at a time. The backward pass recomputes each chunk's logits. If every token is allowed, and there is
room for all logits (`CausalModel.keeps_logits`), they are computed at once, and kept.

Legend: N tokens of a pack, S sampled tokens, C tokens of a chunk, A most choices, E width, V
vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from agentrl_components.model.causal_model import CausalModel
from agentrl_components.model.compilation import chosen
from agentrl_components.model.packed_attention import PackedCausal
from agentrl_components.transfers import on_device
from agentrl_components.update.packing import Pack


def states(decoder: CausalModel, pack: Pack) -> Tensor:
    """Hidden states [S, E] that predict the sampled tokens of a pack."""
    device = decoder.device
    attend = PackedCausal(pack.lengths, device)
    ids_N, rows_S = (on_device(one, device) for one in (pack.ids_N, pack.rows_S))
    hidden_SE: Tensor = decoder(ids_N, attend.positions_N, attend, rows_S)
    return hidden_SE


def score(
    decoder: CausalModel, pack: Pack, chunk: int, *, entropy_gradient: bool = False
) -> tuple[Tensor, Tensor]:
    """Log-probability [S] of each sampled token and entropy [S] of its distribution, in nats.

    The distribution is the one it was sampled from: at the pack's temperature and over the allowed
    tokens.

    Args:
        chunk: number of tokens whose logits exist at one time, if there is no room for all.
        entropy_gradient: whether the entropy has a gradient, which takes memory for two more arrays
            of the logits' size.
    """
    hidden_SE = states(decoder, pack)
    device = hidden_SE.device
    targets_S, temperature_S = (
        on_device(one, device) for one in (pack.targets_S, pack.temperature_S)
    )
    allowed_SA = None if pack.allowed_SA is None else on_device(pack.allowed_SA, device)
    # Decided on the host, which would otherwise wait for the device in each chunk.
    free_S = None if pack.allowed_SA is None else pack.allowed_SA[:, 0] < 0
    if allowed_SA is None and decoder.keeps_logits:
        chunk = max(1, len(targets_S))
    logprobs, entropies = [], []
    for start in range(0, len(targets_S), chunk):
        part = slice(start, start + chunk)
        inputs = (
            decoder,
            hidden_SE[part],
            targets_S[part],
            temperature_S[part],
            None if allowed_SA is None else allowed_SA[part],
            free_S is not None and bool(free_S[part].any()),
            entropy_gradient,
        )
        if len(targets_S) > chunk and torch.is_grad_enabled():
            logprob_C, entropy_C = checkpoint(_head, *inputs, use_reentrant=False)
        else:
            logprob_C, entropy_C = _head(*inputs)
        logprobs.append(logprob_C)
        entropies.append(entropy_C)
    return torch.cat(logprobs), torch.cat(entropies)


def _head(
    decoder: CausalModel,
    hidden_CE: Tensor,
    targets_C: Tensor,
    temperature_C: Tensor,
    allowed_CA: Tensor | None,
    some_free: bool,
    entropy_gradient: bool,
) -> tuple[Tensor, Tensor]:
    """`some_free`: at some of the tokens, though not at all of the pack, every token is allowed."""
    totals = chosen(_totals, compiled=decoder.compiled)
    logits_CV = decoder.logits(hidden_CE)
    if allowed_CA is None and decoder.compiled:
        free = _score_tokens() if logits_CV.is_cuda else chosen(free_scores, compiled=True)
        return free(logits_CV, targets_C, temperature_C, entropy_gradient)
    logits_CV = logits_CV.float() / temperature_C[:, None]
    target_C = logits_CV.gather(1, targets_C[:, None]).squeeze(1)
    if allowed_CA is None:
        total_C, entropy_C = totals(logits_CV, entropy_gradient)
        return target_C - total_C, entropy_C
    # The softmax is over the allowed tokens only, which are far fewer than the vocabulary.
    unrestricted_C = allowed_CA[:, 0] < 0
    padding_CA = (allowed_CA < 0) & ~unrestricted_C[:, None]
    logits_CA = logits_CV.gather(1, allowed_CA.clamp(min=0)).masked_fill(padding_CA, -torch.inf)
    total_C, entropy_C = totals(logits_CA, entropy_gradient)
    if some_free:
        full_C, full_entropy_C = totals(logits_CV, entropy_gradient)
        total_C = torch.where(unrestricted_C, full_C, total_C)
        entropy_C = torch.where(unrestricted_C, full_entropy_C, entropy_C)
    return target_C - total_C, entropy_C


def _score_tokens() -> Callable[[Tensor, Tensor, Tensor, bool], tuple[Tensor, Tensor]]:
    """The kernel that computes `free_scores`. Triton is there with GPUs only."""
    from agentrl_components.model.triton_kernels.scores import score_tokens

    return score_tokens


def free_scores(
    logits_CV: Tensor, targets_C: Tensor, temperature_C: Tensor, entropy_gradient: bool
) -> tuple[Tensor, Tensor]:
    """Log-probability [C] and entropy [C] if every token is allowed.

    Written for torch.compile, which computes it from the model's own type in a few passes over the
    logits and stores no copy of them in float32. `gather` would not be fused: its gradient is a
    scatter into an array of the logits' size."""
    scaled_CV = logits_CV.float() / temperature_C[:, None]
    tokens_V = torch.arange(scaled_CV.shape[1], device=scaled_CV.device)
    target_C = torch.where(tokens_V == targets_C[:, None], scaled_CV, 0.0).sum(-1)
    total_C, entropy_C = _totals(scaled_CV, entropy_gradient)
    return target_C - total_C, entropy_C


def _totals(logits_CV: Tensor, entropy_gradient: bool) -> tuple[Tensor, Tensor]:
    """Log-sum-exp [C] and entropy [C] of logits [C, V]."""
    total_C = logits_CV.logsumexp(-1)
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        probs_CV = (logits_CV - total_C[:, None]).exp()
        # A masked token has probability 0 and logit -inf; their product must be 0, not NaN.
        weighted_C = (probs_CV * logits_CV.masked_fill(probs_CV == 0, 0.0)).sum(-1)
        entropy_C = total_C - weighted_C
    return total_C, entropy_C
