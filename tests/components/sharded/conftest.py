"""Ranks in the process of a test."""

import pytest
from learner_bench import spec

from agentrl_components.model.sources import fetch_model
from agentrl_components.sharded.rank import Rank, RankSetup


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A tiny model of our own decoder."""
    words = [f"word{i}" for i in range(20)]
    return fetch_model(spec().model, words, 0, tmp_path_factory.mktemp("model"))


@pytest.fixture
def open_rank():
    """Opens the models of a folder as the only rank; `changes` are sections of the spec. `divided`:
    with FSDP2."""
    opened = []

    def start(folder, *, divided=False, **changes):
        setup = RankSetup(
            spec=spec(**changes), folder=folder, device="cpu", rank=0, ranks=1, divided=divided
        )
        rank = Rank(setup)
        rank.join(rank.listen("127.0.0.1"))
        opened.append(rank)
        rank.open_models()
        return rank

    yield start
    for rank in opened:
        rank.leave()
