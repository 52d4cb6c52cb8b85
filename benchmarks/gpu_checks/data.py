"""Random episodes for updates, and random requests for engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from agentrl_components.engines.engine import Request, Sampling
from agentrl_components.update.objectives import Imitation
from agentrl_components.update.packing import Example


def examples(lengths: Sequence[int], vocabulary: int) -> list[Example]:
    """Episodes of random tokens, the second half of each sampled."""
    draw = np.random.default_rng(0)
    return [
        Example(
            ids=draw.integers(1, vocabulary, length + 1).astype(np.int32),
            sampled=np.arange(length // 2, length + 1),
            allowed=None,
            temperature=1.0,
            columns={"weight": np.ones(length + 1 - length // 2, dtype=np.float32)},
        )
        for length in lengths
    ]


def skewed(vocabulary: int) -> list[Example]:
    """Episodes of very different lengths."""
    return examples([16, 300, 24, 40, 120, 16, 32, 64], vocabulary)


def likelihood(some: Sequence[Example]) -> Imitation:
    """The mean log-probability of the sampled tokens, as a loss."""
    return Imitation(total_weight=float(sum(len(e.sampled) for e in some)), chunk=1024)


def requests(count: int, prompt: int, reply: int, vocabulary: int) -> list[Request]:
    """One request for each of `count` sessions."""
    draw = np.random.default_rng(1)
    sampling = Sampling(temperature=1.0, top_p=1.0, max_tokens=reply, stop=())
    return [
        Request(
            session=number,
            ids=draw.integers(1, vocabulary, prompt).tolist(),
            seed=number,
            sampling=sampling,
        )
        for number in range(count)
    ]


def restricted(request: Request, vocabulary: int) -> Request:
    """The request, of another session, with 16 admissible replies of five tokens, of which always
    two begin with the same three tokens."""
    draw = np.random.default_rng(request.seed)
    beginnings = draw.integers(1, vocabulary, (8, 3))
    endings = draw.integers(1, vocabulary, (8, 2, 2))
    return replace(
        request,
        session=1000 + request.session,
        sampling=replace(request.sampling, stop=(0,)),
        admissible=tuple(
            (*map(int, beginning), *map(int, ending))
            for beginning, two in zip(beginnings, endings, strict=True)
            for ending in two
        ),
    )
