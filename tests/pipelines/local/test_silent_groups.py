"""A run whose groups carry no learning signal says so."""

import json
from pathlib import Path

from corridor_run import manifest

from agentrl_components.run.progress import SilentProgressView
from agentrl_components.schedule.record import IterationRecord
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.tracking.tracker import MemoryTracker
from agentrl_pipelines.local.run import run_local


def test_iterations_without_an_update_are_noted_once_and_counted_in_the_report(tmp_path: Path):
    """No door is reached in one turn: every episode earns 0 and no group has a signal."""
    view = SilentProgressView()
    run = manifest(
        warmStart=None,
        environments=[{"name": "corridor", "builtin": "corridor", "options": {"turns": 1}}],
        horizon={"phases": [{"maxTurns": 1, "iterations": 5}]},
        evaluation={"tasks": 2, "every": 0},
    )
    report = run_local(run, tmp_path, view, MemoryTracker())
    (note,) = [note for note in view.notes if "changed no weights" in note]
    assert note.startswith("the last 3 iterations changed no weights: in each of their groups")
    assert report.silence.startswith("5 of 5 iterations changed no weights")
    assert report.silence in (tmp_path / "report.html").read_text(encoding="utf-8")
    record = json.loads(DirectoryStore(tmp_path / "store").get(keys.iteration(0)))
    metrics = record["metrics"]
    assert (metrics["train/silent_groups"], metrics["update/episodes"]) == (6, 0)
    assert metrics["update/tokens"] == 0
    assert IterationRecord.model_validate(record).silent
