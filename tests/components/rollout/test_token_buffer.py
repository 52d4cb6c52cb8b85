"""The token buffer appends replies as generated, masks forced tokens and refuses broken replies."""

from __future__ import annotations

import numpy as np
import pytest

from agentrl_components.engines.engine import Generation, Stop
from agentrl_components.errors import DriftError
from agentrl_components.rollout.token_buffer import TokenBuffer

END = 4


def free(*ids: int, stop: Stop = Stop.STOP) -> Generation:
    return Generation(
        ids=ids,
        logprobs=tuple(-0.5 for _ in ids),
        sampled=tuple(True for _ in ids),
        allowed=None,
        stop=stop,
        version=3,
    )


CHOSEN = Generation(
    ids=(7, 9, END),
    logprobs=(0.0, -0.25, 0.0),
    sampled=(False, True, False),
    allowed=((7,), (8, 9), (END,)),
    stop=Stop.STOP,
    version=0,
)


def test_an_episode_is_its_pieces_in_order() -> None:
    buffer = TokenBuffer()
    buffer.open([10, 11, 12])
    assert buffer.reply(free(20, END)) == (3, 5)
    buffer.observe([13, 14])
    assert buffer.reply(free(21, END)) == (7, 9)
    tokens = buffer.arrays()
    assert buffer.ids == (10, 11, 12, 20, END, 13, 14, 21, END)
    assert tokens["ids"].tolist() == [10, 11, 12, 20, END, 13, 14, 21, END]
    assert tokens["mask"].tolist() == [False] * 3 + [True] * 2 + [False] * 2 + [True] * 2
    assert tokens["logprobs"].tolist() == [0, 0, 0, -0.5, -0.5, 0, 0, -0.5, -0.5]
    assert tokens["allowed"] is None


def test_arrays_have_the_types_of_a_trajectory() -> None:
    buffer = TokenBuffer()
    buffer.open([10])
    buffer.reply(CHOSEN)
    tokens = buffer.arrays()
    assert tokens["ids"].dtype == np.int32
    assert tokens["mask"].dtype == np.bool_
    assert tokens["logprobs"].dtype == np.float32
    assert tokens["allowed"] is not None
    assert tokens["allowed"][0].dtype == np.int32


def test_a_forced_token_carries_no_gradient() -> None:
    buffer = TokenBuffer()
    buffer.open([10])
    buffer.reply(CHOSEN)
    tokens = buffer.arrays()
    assert tokens["ids"].tolist() == [10, 7, 9, END]
    assert tokens["mask"].tolist() == [False, False, True, False]
    assert tokens["logprobs"].tolist() == [0, 0, -0.25, 0]
    assert [choices.tolist() for choices in tokens["allowed"] or ()] == [[8, 9]]


def test_a_stop_token_that_closes_a_cut_reply_is_not_the_agents() -> None:
    buffer = TokenBuffer()
    buffer.open([10])
    buffer.reply(free(20, 21, stop=Stop.LENGTH))
    buffer.observe([END, 13])
    assert buffer.arrays()["mask"].tolist() == [False, True, True, False, False]


def test_a_reply_that_was_forced_whole_has_no_choices_but_stays_admissible() -> None:
    buffer = TokenBuffer()
    buffer.open([10])
    only = Generation(
        ids=(7, END),
        logprobs=(0.0, 0.0),
        sampled=(False, False),
        allowed=((7,), (END,)),
        stop=Stop.STOP,
        version=0,
    )
    buffer.reply(only)
    assert buffer.arrays()["allowed"] == ()


def test_a_log_probability_of_a_forced_token_is_not_kept() -> None:
    odd = Generation(
        ids=(7,), logprobs=(-9.0,), sampled=(False,), allowed=((7,),), stop=Stop.STOP, version=0
    )
    buffer = TokenBuffer()
    buffer.open([10])
    buffer.reply(odd)
    assert buffer.arrays()["logprobs"].tolist() == [0, 0]


def test_ids_that_were_handed_out_do_not_grow() -> None:
    buffer = TokenBuffer()
    buffer.open([10])
    asked = buffer.ids
    buffer.reply(free(20, END))
    assert asked == (10,)


def test_an_episode_is_opened_once() -> None:
    buffer = TokenBuffer()
    buffer.open([10])
    with pytest.raises(DriftError, match="opened again"):
        buffer.open([10])


def test_an_episode_is_played_freely_or_among_admissible_actions_not_both() -> None:
    buffer = TokenBuffer()
    buffer.open([10])
    buffer.reply(CHOSEN)
    with pytest.raises(DriftError, match="only some replies of an episode were restricted"):
        buffer.reply(free(20, END))


def test_a_reply_with_a_log_probability_missing_is_refused() -> None:
    broken = Generation(
        ids=(7, 8), logprobs=(-1.0,), sampled=(True, True), allowed=None, stop=Stop.STOP, version=0
    )
    with pytest.raises(DriftError, match="2 tokens came with 1 logprobs"):
        TokenBuffer().reply(broken)


def test_a_token_sampled_outside_of_what_was_allowed_is_refused() -> None:
    broken = Generation(
        ids=(7,), logprobs=(-1.0,), sampled=(True,), allowed=((8, 9),), stop=Stop.STOP, version=0
    )
    with pytest.raises(DriftError, match=r"token 7 at 0 .* only \[8, 9\]"):
        TokenBuffer().reply(broken)
