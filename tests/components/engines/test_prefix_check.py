from __future__ import annotations

import numpy as np
import pytest

from agentrl_components.engines.engine import (
    Engine,
    Generation,
    Request,
    Sampling,
    ScriptedEngine,
    Stop,
)
from agentrl_components.engines.prefix_check import CheckedEngine, Ledger, check_extends
from agentrl_components.errors import DriftError

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
    ledger = Ledger()
    ledger.open([10, 11, 12])
    assert ledger.reply(free(20, END)) == (3, 5)
    ledger.observe([13, 14])
    assert ledger.reply(free(21, END)) == (7, 9)
    tokens = ledger.build()
    assert ledger.ids == (10, 11, 12, 20, END, 13, 14, 21, END)
    assert tokens["ids"].tolist() == [10, 11, 12, 20, END, 13, 14, 21, END]
    assert tokens["mask"].tolist() == [False] * 3 + [True] * 2 + [False] * 2 + [True] * 2
    assert tokens["logprobs"].tolist() == [0, 0, 0, -0.5, -0.5, 0, 0, -0.5, -0.5]
    assert tokens["allowed"] is None


def test_arrays_have_the_types_of_a_trajectory() -> None:
    ledger = Ledger()
    ledger.open([10])
    ledger.reply(CHOSEN)
    tokens = ledger.build()
    assert tokens["ids"].dtype == np.int32
    assert tokens["mask"].dtype == np.bool_
    assert tokens["logprobs"].dtype == np.float32
    assert tokens["allowed"] is not None
    assert tokens["allowed"][0].dtype == np.int32


def test_a_forced_token_carries_no_gradient() -> None:
    ledger = Ledger()
    ledger.open([10])
    ledger.reply(CHOSEN)
    tokens = ledger.build()
    assert tokens["ids"].tolist() == [10, 7, 9, END]
    assert tokens["mask"].tolist() == [False, False, True, False]
    assert tokens["logprobs"].tolist() == [0, 0, -0.25, 0]
    assert [choices.tolist() for choices in tokens["allowed"] or ()] == [[8, 9]]


def test_a_stop_token_that_closes_a_cut_reply_is_not_the_agents() -> None:
    ledger = Ledger()
    ledger.open([10])
    ledger.reply(free(20, 21, stop=Stop.LENGTH))
    ledger.observe([END, 13])
    assert ledger.build()["mask"].tolist() == [False, True, True, False, False]


def test_a_reply_that_was_forced_whole_has_no_choices_but_stays_admissible() -> None:
    ledger = Ledger()
    ledger.open([10])
    only = Generation(
        ids=(7, END),
        logprobs=(0.0, 0.0),
        sampled=(False, False),
        allowed=((7,), (END,)),
        stop=Stop.STOP,
        version=0,
    )
    ledger.reply(only)
    assert ledger.build()["allowed"] == ()


def test_a_log_probability_of_a_forced_token_is_not_kept() -> None:
    odd = Generation(
        ids=(7,), logprobs=(-9.0,), sampled=(False,), allowed=((7,),), stop=Stop.STOP, version=0
    )
    ledger = Ledger()
    ledger.open([10])
    ledger.reply(odd)
    assert ledger.build()["logprobs"].tolist() == [0, 0]


def test_ids_that_were_handed_out_do_not_grow() -> None:
    ledger = Ledger()
    ledger.open([10])
    asked = ledger.ids
    ledger.reply(free(20, END))
    assert asked == (10,)


def test_an_episode_is_opened_once() -> None:
    ledger = Ledger()
    ledger.open([10])
    with pytest.raises(DriftError, match="opened again"):
        ledger.open([10])


def test_an_episode_is_played_freely_or_among_admissible_actions_not_both() -> None:
    ledger = Ledger()
    ledger.open([10])
    ledger.reply(CHOSEN)
    with pytest.raises(DriftError, match="only sometimes held to admissible actions"):
        ledger.reply(free(20, END))


def test_a_reply_with_a_log_probability_missing_is_refused() -> None:
    broken = Generation(
        ids=(7, 8), logprobs=(-1.0,), sampled=(True, True), allowed=None, stop=Stop.STOP, version=0
    )
    with pytest.raises(DriftError, match="2 tokens came with 1 logprobs"):
        Ledger().reply(broken)


def test_a_token_sampled_outside_of_what_was_allowed_is_refused() -> None:
    broken = Generation(
        ids=(7,), logprobs=(-1.0,), sampled=(True,), allowed=((8, 9),), stop=Stop.STOP, version=0
    )
    with pytest.raises(DriftError, match=r"token 7 at 0 .* only \[8, 9\]"):
        Ledger().reply(broken)


def test_ids_that_go_on_pass_the_check() -> None:
    check_extends([1, 2, 3], [1, 2, 3])
    check_extends((1, 2, 3), [1, 2, 3, 4])
    check_extends([], [1])


def test_a_changed_token_is_shown_with_its_neighbours() -> None:
    before = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    after = [1, 2, 3, 4, 5, 60, 7, 8, 9, 10, 11, 12]
    with pytest.raises(DriftError) as raised:
        check_extends(before, after)
    message = str(raised.value)
    assert "token 5 changed" in message
    assert "had [2, 3, 4, 5, 6, 7, 8, 9, 10]" in message
    assert "now [2, 3, 4, 5, 60, 7, 8, 9, 10]" in message
    assert "from position 1" in message


def test_a_token_that_went_missing_at_the_end_is_found() -> None:
    with pytest.raises(DriftError, match=r"token 2 changed .* 3 tokens had been .* 2 were sent"):
        check_extends([1, 2, 3], [1, 2])


def asking(session: int, *ids: int) -> Request:
    sampling = Sampling(temperature=1.0, top_p=1.0, max_tokens=8, stop=(END,))
    return Request(session=session, ids=ids, seed=0, sampling=sampling)


async def test_a_request_that_goes_on_reaches_the_engine() -> None:
    script = ScriptedEngine([[20, END], [21, END]])
    engine: Engine = CheckedEngine(script)
    await engine.generate(asking(1, 10, 11))
    reply = await engine.generate(asking(1, 10, 11, 20, END, 12))
    assert reply.ids == (21, END)
    assert [tuple(request.ids) for request in script.requests] == [
        (10, 11),
        (10, 11, 20, END, 12),
    ]


async def test_a_request_that_changes_what_was_sampled_never_reaches_the_engine() -> None:
    script = ScriptedEngine([[20, END], [21, END]])
    engine = CheckedEngine(script)
    await engine.generate(asking(1, 10, 11))
    with pytest.raises(DriftError, match="token 2 changed"):
        await engine.generate(asking(1, 10, 11, 30, END, 12))
    assert len(script.requests) == 1


async def test_sessions_are_compared_with_themselves_alone() -> None:
    engine = CheckedEngine(ScriptedEngine([[20, END], [21, END]]))
    await engine.generate(asking(1, 10, 11))
    await engine.generate(asking(2, 50))


async def test_a_released_session_may_begin_again() -> None:
    script = ScriptedEngine([[20, END], [21, END]])
    engine = CheckedEngine(script)
    await engine.generate(asking(1, 10, 11))
    await engine.release(1)
    await engine.generate(asking(1, 50))
    assert script.released == [1]
