"""AgentGym's item ids."""

import pytest

from agentrl_envs.environments.search.agentgym_ids import RANGES, row_of


def test_ranges_are_those_of_upstreams_server():
    assert {key: (ids.start, ids.stop) for key, ids in RANGES.items()} == {
        ("heldout", "nq"): (0, 3610),
        ("heldout", "triviaqa"): (3610, 14923),
        ("heldout", "popqa"): (14923, 29190),
        ("heldout", "hotpotqa"): (29190, 36595),
        ("heldout", "2wikimultihopqa"): (36595, 49171),
        ("heldout", "musique"): (49171, 51588),
        ("heldout", "bamboogle"): (51588, 51713),
        ("train", "nq"): (51713, 130881),
        ("train", "hotpotqa"): (130881, 221328),
    }


def test_an_id_is_a_row_of_a_data_set():
    assert row_of(3610) == ("heldout", "triviaqa", 0)
    assert row_of(221327) == ("train", "hotpotqa", 90446)
    with pytest.raises(ValueError, match="0 to 221327; got 221328"):
        row_of(221328)
