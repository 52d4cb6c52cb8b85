"""Drawing tokens: distributions by hand, and draws that depend on a seed alone."""

import math

import numpy as np
import pytest
import torch

from agentrl_components.engines.engine import Sampling
from agentrl_components.engines.torch_engine.sampling import distribution, nucleus, pick, uniforms
from agentrl_components.schedule.seeds import derive


def sampling(temperature=1.0, top_p=1.0):
    return Sampling(temperature=temperature, top_p=top_p, max_tokens=1, stop=(0,))


def logits(*chances):
    return torch.tensor([chances]).log()


def test_confined_chances_are_renormalised():
    (row,) = distribution(logits(0.5, 0.25, 0.25), [sampling()], [(0, 2)])
    assert row.exp().tolist() == pytest.approx([2 / 3, 0.0, 1 / 3])


def test_temperature_sharpens():
    (row,) = distribution(logits(0.8, 0.2), [sampling(temperature=0.5)], [None])
    assert row.exp().tolist() == pytest.approx([0.64 / 0.68, 0.04 / 0.68])


def test_temperature_0_leaves_the_logits_as_they_are():
    (row,) = distribution(logits(0.8, 0.2), [sampling(temperature=0.0)], [None])
    assert row.exp().tolist() == pytest.approx([0.8, 0.2])


def test_the_nucleus_is_the_smallest_set_that_holds_enough():
    kept = nucleus(torch.tensor([0.1, 0.5, 0.4]).log(), 0.6)
    assert kept.exp().tolist() == pytest.approx([0.0, 5 / 9, 4 / 9])


def test_rows_have_rules_of_their_own():
    rows = distribution(
        logits(0.5, 0.3, 0.2).repeat(3, 1),
        [sampling(), sampling(top_p=0.4), sampling(temperature=2.0)],
        [None, None, (1, 2)],
    )
    assert rows[0].exp().tolist() == pytest.approx([0.5, 0.3, 0.2])
    assert rows[1].exp().tolist() == pytest.approx([1.0, 0.0, 0.0])
    share = math.sqrt(0.3) / (math.sqrt(0.3) + math.sqrt(0.2))
    assert rows[2].exp().tolist() == pytest.approx([0.0, share, 1 - share])


def test_draws_are_a_function_of_seed_and_counter_and_spread_evenly():
    seeds = np.arange(20000, dtype=np.uint64)
    draws = uniforms(seeds, np.zeros_like(seeds))
    assert draws.tolist() == uniforms(seeds, np.zeros_like(seeds)).tolist()
    assert draws.min() >= 0.0
    assert draws.max() < 1.0
    share, _ = np.histogram(draws, bins=10, range=(0, 1))
    assert np.abs(share / 20000 - 0.1).max() < 0.01
    other = uniforms(seeds, np.ones_like(seeds))
    assert abs(np.corrcoef(draws, other)[0, 1]) < 0.03


def test_the_token_is_where_the_cumulative_chance_passes_the_draw():
    rows = logits(0.25, 0.0, 0.5, 0.25).repeat(4, 1)
    draws = torch.tensor([0.0, 0.3, 0.74, 0.99], dtype=torch.float64)
    greedy = torch.tensor([False] * 4)
    assert pick(rows, draws, greedy).tolist() == [0, 2, 2, 3]
    assert pick(rows, draws, torch.tensor([True] * 4)).tolist() == [2, 2, 2, 2]


def test_a_token_without_a_chance_is_never_picked():
    rows = logits(0.0, 1.0, 0.0)
    for draw in (0.0, 0.5, 1 - 2**-53):
        picked = pick(rows, torch.tensor([draw], dtype=torch.float64), torch.tensor([False]))
        assert picked.tolist() == [1]


def test_seeds_differ_with_every_part_of_their_path():
    paths = [("turn", 1, 2), ("turn", 12), ("turn", 2, 1), ("Turn", 1, 2), ("turn", 1, 2, 0)]
    seeds = {derive(7, *path) for path in paths} | {derive(8, *paths[0])}
    assert len(seeds) == 6
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_seed_is_the_same_everywhere():
    import hashlib

    digest = hashlib.blake2b(b"7/turn/1/2", digest_size=8).digest()
    assert derive(7, "turn", 1, 2) == int.from_bytes(digest, "big") >> 1
