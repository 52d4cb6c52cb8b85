"""One run plays and trains in all five worlds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml
from web_pages import needs_chromium

from agentrl_components.run.progress import SilentProgressView
from agentrl_components.spec.parsing.load import parse
from agentrl_components.tracking.tracker import MemoryTracker
from agentrl_pipelines.local.run import run_local

EXAMPLE = Path(__file__).parents[2] / "examples" / "everything.yaml"
ROOT = Path("runs/learning/everything")


@pytest.mark.slow
@needs_chromium
@pytest.mark.skipif(shutil.which("java") is None, reason="no Java: apt-get install openjdk-17-jre")
def test_the_example_of_all_worlds_runs_two_iterations():
    document = yaml.safe_load(EXAMPLE.read_text())
    document["spec"]["horizon"]["phases"] = [{"maxTurns": 4, "iterations": 2}]
    document["spec"]["rollout"] |= {"tasks": 15, "groupSize": 2}
    document["spec"]["update"]["warmupIterations"] = 0
    document["spec"]["evaluation"]["tasks"] = 15
    document["spec"]["compute"] = {"workers": 1}
    shutil.rmtree(ROOT, ignore_errors=True)
    report = run_local(parse(document), ROOT, SilentProgressView(), MemoryTracker())
    after = report.heldout.after
    assert after is not None
    assert set(after.environments) == {"babyai", "textcraft", "search", "sciworld", "web"}
    assert after.lost == 0
