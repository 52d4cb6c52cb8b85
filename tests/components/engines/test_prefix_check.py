"""Requests of an episode must extend one another."""

from __future__ import annotations

import pytest
from scripted_engine import ScriptedEngine

from agentrl_components.engines.engine import Engine, Request, Sampling
from agentrl_components.engines.prefix_check import CheckedEngine, check_extends
from agentrl_components.errors import DriftError

END = 4


def test_ids_that_extend_the_previous_ones_pass_the_check() -> None:
    check_extends([1, 2, 3], [1, 2, 3])
    check_extends((1, 2, 3), [1, 2, 3, 4])
    check_extends([], [1])


def test_the_error_for_a_changed_token_shows_its_neighbours() -> None:
    before = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    after = [1, 2, 3, 4, 5, 60, 7, 8, 9, 10, 11, 12]
    with pytest.raises(DriftError) as raised:
        check_extends(before, after)
    message = str(raised.value)
    assert "token 5 changed" in message
    assert "had [2, 3, 4, 5, 6, 7, 8, 9, 10]" in message
    assert "now [2, 3, 4, 5, 60, 7, 8, 9, 10]" in message
    assert "from position 1" in message


def test_a_missing_last_token_is_detected() -> None:
    with pytest.raises(
        DriftError, match=r"token 2 changed .* episode had 3 tokens, the request has 2"
    ):
        check_extends([1, 2, 3], [1, 2])


def request(session: int, *ids: int) -> Request:
    sampling = Sampling(temperature=1.0, top_p=1.0, max_tokens=8, stop=(END,))
    return Request(session=session, ids=ids, seed=0, sampling=sampling)


async def test_a_request_that_extends_its_session_is_passed_to_the_engine() -> None:
    scripted = ScriptedEngine([[20, END], [21, END]])
    engine: Engine = CheckedEngine(scripted)
    await engine.generate(request(1, 10, 11))
    reply = await engine.generate(request(1, 10, 11, 20, END, 12))
    assert reply.ids == (21, END)
    assert [tuple(one.ids) for one in scripted.requests] == [
        (10, 11),
        (10, 11, 20, END, 12),
    ]


async def test_a_request_that_changes_a_sampled_token_is_rejected() -> None:
    scripted = ScriptedEngine([[20, END], [21, END]])
    engine = CheckedEngine(scripted)
    await engine.generate(request(1, 10, 11))
    with pytest.raises(DriftError, match="token 2 changed"):
        await engine.generate(request(1, 10, 11, 30, END, 12))
    assert len(scripted.requests) == 1


async def test_requests_are_compared_only_within_their_session() -> None:
    engine = CheckedEngine(ScriptedEngine([[20, END], [21, END]]))
    await engine.generate(request(1, 10, 11))
    await engine.generate(request(2, 50))


async def test_a_released_session_can_start_with_other_tokens() -> None:
    scripted = ScriptedEngine([[20, END], [21, END]])
    engine = CheckedEngine(scripted)
    await engine.generate(request(1, 10, 11))
    await engine.release(1)
    await engine.generate(request(1, 50))
    assert scripted.released == [1]
