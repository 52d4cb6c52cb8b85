"""A small model learns to search from random weights. Writes its curve to runs/learning/."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from agentrl_components.run.progress import SilentProgressView
from agentrl_components.spec.parsing.load import parse
from agentrl_components.tracking.tracker import MemoryTracker
from agentrl_pipelines.local.run import run_local

EXAMPLE = Path(__file__).parents[2] / "examples" / "search.yaml"
ROOT = Path("runs/learning/search")


@pytest.mark.slow
def test_an_agent_learns_to_chain_searches_in_the_first_phase_of_the_example():
    document = yaml.safe_load(EXAMPLE.read_text())
    document["spec"]["horizon"]["phases"] = [{"maxTurns": 4, "iterations": 60}]
    document["spec"]["evaluation"]["tasks"] = 200
    shutil.rmtree(ROOT, ignore_errors=True)
    heldout = run_local(parse(document), ROOT, SilentProgressView(), MemoryTracker()).heldout
    assert heldout.random is not None
    assert heldout.before is not None
    assert heldout.after is not None
    assert heldout.after.low > heldout.random.high
    assert heldout.after.low > heldout.before.high
    two_hops = heldout.after.categories["search/2 hops"]
    assert two_hops.low > heldout.random.categories["search/2 hops"].high
