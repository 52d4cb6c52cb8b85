"""Log-probabilities and entropies of sampled tokens, without ever holding all logits.

Only states that predict a sampled token reach the language-model head, a chunk at a time; in the
backward pass each chunk's logits are computed again.

Legend: N tokens of a pack, S sampled tokens, C tokens of a chunk, A most choices, E width, V
vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from agentrl_components.model.decoder import Decoder
from agentrl_components.model.packed_attention import PackedCausal
from agentrl_components.update.packing import Pack


def states(decoder: Decoder, pack: Pack) -> Tensor:
    """Hidden states [S, E] that predict the sampled tokens of a pack."""
    device = decoder.model.embed_tokens.weight.device
    attend = PackedCausal(pack.lengths, device)
    hidden_NE = decoder(torch.from_numpy(pack.ids_N).to(device), attend.positions_N, attend)
    hidden_SE: Tensor = hidden_NE.index_select(0, torch.from_numpy(pack.rows_S).to(device))
    return hidden_SE


def score(decoder: Decoder, pack: Pack, chunk: int) -> tuple[Tensor, Tensor]:
    """Log-probability [S] and entropy [S], in nats, of each sampled token's distribution: confined
    and tempered just as it was sampled."""
    hidden_SE = states(decoder, pack)
    device = hidden_SE.device
    targets_S = torch.from_numpy(pack.targets_S).to(device)
    temperature_S = torch.from_numpy(pack.temperature_S).to(device)
    allowed_SA = None if pack.allowed_SA is None else torch.from_numpy(pack.allowed_SA).to(device)
    logprobs, entropies = [], []
    for start in range(0, len(targets_S), chunk):
        part = slice(start, start + chunk)
        inputs = (
            decoder,
            hidden_SE[part],
            targets_S[part],
            temperature_S[part],
            None if allowed_SA is None else allowed_SA[part],
        )
        if len(targets_S) > chunk and torch.is_grad_enabled():
            logprob_C, entropy_C = checkpoint(_head, *inputs, use_reentrant=False)
        else:
            logprob_C, entropy_C = _head(*inputs)
        logprobs.append(logprob_C)
        entropies.append(entropy_C)
    return torch.cat(logprobs), torch.cat(entropies)


def _head(
    decoder: Decoder,
    hidden_CE: Tensor,
    targets_C: Tensor,
    temperature_C: Tensor,
    allowed_CA: Tensor | None,
) -> tuple[Tensor, Tensor]:
    logits_CV = decoder.logits(hidden_CE).float() / temperature_C[:, None]
    target_C = logits_CV.gather(1, targets_C[:, None]).squeeze(1)
    if allowed_CA is None:
        total_C, entropy_C = _totals(logits_CV)
        return target_C - total_C, entropy_C
    # Choices take the vocabulary's place: the same softmax over far fewer columns.
    open_C = allowed_CA[:, 0] < 0
    closed_CA = (allowed_CA < 0) & ~open_C[:, None]
    chosen_CA = logits_CV.gather(1, allowed_CA.clamp(min=0)).masked_fill(closed_CA, -torch.inf)
    total_C, entropy_C = _totals(chosen_CA)
    if bool(open_C.any()):
        wide_C, wide_entropy_C = _totals(logits_CV)
        total_C = torch.where(open_C, wide_C, total_C)
        entropy_C = torch.where(open_C, wide_entropy_C, entropy_C)
    return target_C - total_C, entropy_C


def _totals(logits_CV: Tensor) -> tuple[Tensor, Tensor]:
    """Logarithm of the sum of exponentials [C] and entropy [C]."""
    total_C = logits_CV.logsumexp(-1)
    chances_CV = (logits_CV - total_C[:, None]).exp()
    # A closed choice has chance 0 and logit -inf; their product must be 0, not NaN.
    weighted_C = (chances_CV * logits_CV.masked_fill(chances_CV == 0, 0.0)).sum(-1)
    return total_C, total_C - weighted_C
