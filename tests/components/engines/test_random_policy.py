"""The random policy samples admissible actions uniformly."""

import math
from collections import Counter

import pytest

from agentrl_components.engines.engine import Request, Sampling
from agentrl_components.engines.random_policy import RandomEngine
from agentrl_components.errors import EngineError
from agentrl_components.schedule.seeds import derive

SAMPLING = Sampling(temperature=1.0, top_p=1.0, max_tokens=9, stop=(2,))


def request(seed, admissible):
    return Request(session=1, ids=(5,), seed=seed, sampling=SAMPLING, admissible=admissible)


async def test_actions_are_sampled_uniformly():
    actions = [[7], [8, 9], [10]]
    counts = Counter()
    for number in range(3000):
        reply = await RandomEngine().generate(request(derive(1, number), actions))
        counts[reply.ids] += 1
    assert set(counts) == {(7, 2), (8, 9, 2), (10, 2)}
    assert all(abs(count / 3000 - 1 / 3) < 0.03 for count in counts.values())


async def test_the_first_token_has_the_logprob_of_the_whole_action():
    reply = await RandomEngine().generate(request(0, [[8, 9], [8, 9]]))
    assert reply.logprobs == (-math.log(2), 0.0, 0.0)
    assert reply.sampled == (True, False, False)
    assert reply.version == -1


async def test_an_environment_without_admissible_actions_is_rejected():
    with pytest.raises(EngineError, match="needs an environment with admissible actions"):
        await RandomEngine().generate(request(0, None))
