"""A tiny Qwen2, and reference values computed by transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from agentrl_components.engines.engine import Request, Sampling

VOCABULARY = 96
STOP = 2
CONTEXT = 256
FREE = Sampling(temperature=1.0, top_p=1.0, max_tokens=12, stop=(STOP,))
LOOSE = Sampling(temperature=1.0, top_p=1.0, max_tokens=12, stop=())
# Two actions share a prefix, one is a prefix of another, and one shares none.
ACTIONS = ((10, 11, 12), (10, 11, 13, 14), (20,), (20, 21), (30, 31, 32, 33))


def make_model(seed: int) -> Any:
    """A Qwen2 with random weights, large enough that its replies are not near uniform."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Qwen2ForCausalLM(
            Qwen2Config(
                vocab_size=VOCABULARY,
                hidden_size=128,
                intermediate_size=128,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                max_position_embeddings=CONTEXT,
                initializer_range=0.1,
                tie_word_embeddings=True,
                bos_token_id=None,
                eos_token_id=STOP,
                pad_token_id=None,
            )
        ).eval()


def weights_of(model: Any) -> dict[str, torch.Tensor]:
    """The weights named as in a checkpoint: without the tied output head."""
    return {k: v.clone() for k, v in model.state_dict().items() if k != "lm_head.weight"}


def ask(ids: Sequence[int], seed: int, sampling: Sampling = FREE, **more: Any) -> Request:
    return Request(session=0, ids=ids, seed=seed, sampling=sampling, **more)


@torch.no_grad()
def logits_after(model: Any, prompt: Sequence[int], reply: Sequence[int]) -> torch.Tensor:
    """[R, V]: the logits that transformers computes for each token of the reply."""
    logits_TV = model(torch.tensor([[*prompt, *reply]])).logits[0]
    return logits_TV[len(prompt) - 1 : -1]


def expected(model: Any, prompt: Sequence[int], reply: Sequence[int]) -> list[float]:
    """The log-probabilities of the reply, computed by transformers."""
    logprobs_RV = logits_after(model, prompt, reply).log_softmax(-1)
    return logprobs_RV.gather(1, torch.tensor(reply)[:, None])[:, 0].tolist()


def reply_probability(
    model: Any, prompt: Sequence[int], reply: tuple[int, ...], temperature: float
) -> float:
    """Probability of an admissible reply: each token's softmax is over the tokens ACTIONS admit."""
    probability = 1.0
    for position, logits_V in enumerate(logits_after(model, prompt, reply) / temperature):
        sequences = [(*action, STOP) for action in ACTIONS]
        choices = sorted({s[position] for s in sequences if s[:position] == reply[:position]})
        probability *= float(logits_V[choices].softmax(-1)[choices.index(reply[position])])
    return probability
