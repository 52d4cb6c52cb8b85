"""Rows with the same tokens are computed once."""

import asyncio

from small_engine import STOP, decoder, request

from agentrl_components.engines.engine import Sampling
from agentrl_components.engines.torch_engine.engine import TorchEngine
from agentrl_components.engines.torch_engine.equal_rows import EqualRows
from agentrl_components.engines.torch_engine.reply import Session

GREEDY = Sampling(temperature=0.0, top_p=1.0, max_tokens=4, stop=(STOP,))


def test_sessions_are_equal_as_long_as_all_their_tokens_are():
    a, b, c, d = sessions = [Session(slot) for slot in range(1, 5)]
    first = EqualRows([[5, 6], [5, 6], [5, 7], [5, 6]], sessions)
    assert first.firsts_R.tolist() == [0, 2]
    assert first.rows_B.tolist() == [0, 0, 1, 0]
    # The third has other tokens in the cache, and the fourth is given another one.
    second = EqualRows([[8], [8], [8], [9]], [d, c, b, a])
    assert second.firsts_R.tolist() == [0, 1, 3]
    assert second.rows_B.tolist() == [0, 1, 0, 2]
    # The last two passes of b and d were the same, and a was given another token between them.
    third = EqualRows([[3], [3], [3]], [a, b, d])
    assert third.rows_B.tolist() == [0, 1, 1]


def test_a_session_that_has_forgotten_its_tokens_equals_a_new_one():
    old, new = Session(1), Session(2)
    EqualRows([[4]], [old])
    assert EqualRows([[5], [5]], [old, new]).rows_B.tolist() == [0, 1]
    old.forget()
    new.forget()
    assert EqualRows([[5], [5]], [old, new]).rows_B.tolist() == [0, 0]


def test_a_prompt_of_eight_episodes_is_computed_once():
    made, prompt = decoder(), tuple(range(2, 40)) * 2
    tokens = []
    embedding = made.model.embed_tokens
    embedding.register_forward_hook(lambda module, given, out: tokens.append(len(given[0])))

    async def play(engine, count):
        return await asyncio.gather(
            *(engine.generate(request(n, prompt, n, GREEDY)) for n in range(count))
        )

    (alone,) = asyncio.run(play(TorchEngine(made), 1))
    computed, tokens[:] = list(tokens), []
    together = asyncio.run(play(TorchEngine(made), 8))
    assert tokens == computed
    assert tokens[0] >= len(prompt)
    assert [(reply.ids, reply.logprobs) for reply in together] == [(alone.ids, alone.logprobs)] * 8
