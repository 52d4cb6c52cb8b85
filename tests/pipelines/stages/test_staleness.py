"""What was played ahead is dropped where a phase ends or goes back, and kept until then."""

import json
import threading

import pytest
from stage_run import lines, manifest, step, together

from agentrl_components.run.progress import SilentView
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.tracking.tracker import MemoryTracker
from agentrl_pipelines.local.run import run_local
from agentrl_pipelines.stages.runner import run_step


def test_what_was_played_for_a_phase_that_ended_early_is_dropped(tmp_path):
    """A tenth of success ends a phase of at most 8 after 6 iterations, when the last two are
    played already, and the next after 3."""
    phases = [{"maxTurns": turns, "iterations": 8, "minIterations": 3} for turns in (2, 4)]
    early = {"phases": phases, "advance": "success", "successAbove": 0.1, "window": 2}
    run = manifest(tmp_path / "one", lag=3, horizon=early)
    run_local(run, tmp_path / "run", SilentView(), MemoryTracker())
    told = [json.loads(line) for line in lines(tmp_path / "one")]
    assert [line["max_turns"] for line in told] == [2] * 6 + [4] * 3
    measured = [line["metrics"]["train/staleness"] for line in told]
    assert measured == [0.0, 1, 2, 3, 3, 3, 0, 1, 2]
    kept = DirectoryStore(tmp_path / "one").list(keys.TRAJECTORIES)
    assert [keys.played(key) for key in kept] == [(8, 6)]

    apart = manifest(tmp_path / "two", "disaggregated", 3, horizon=early)
    assert together(apart, tmp_path / "scratch") >= 9
    assert lines(tmp_path / "two") == lines(tmp_path / "one")


def test_after_a_rollback_what_was_played_ahead_is_dropped(tmp_path):
    alarm = {"action": "rollback", "window": 2, "entropyBelow": 50}
    phases = [{"maxTurns": 4, "iterations": 8}]
    changes = {"horizon": {"phases": phases, "alarms": [alarm]}, "update": {"keepLast": 20}}
    run = manifest(tmp_path / "one", lag=2, **changes)
    run_local(run, tmp_path / "run", SilentView(), MemoryTracker())
    told = [json.loads(line) for line in lines(tmp_path / "one")]
    assert [line["decision"]["action"] for line in told].index("rollback") == 4
    assert [line["metrics"]["train/staleness"] for line in told] == [0.0, 1, 2, 2, 2, 0, 1, 2]

    together(manifest(tmp_path / "two", "disaggregated", 2, **changes), tmp_path / "scratch", 1)
    assert lines(tmp_path / "two") == lines(tmp_path / "one")


@pytest.mark.parametrize(
    ("lag", "policies"), [(0, ["4", "5"]), (1, ["3", "4", "5"]), (3, ["1", "2", "3", "4", "5"])]
)
def test_what_was_learnt_from_is_kept_until_two_checkpoints_cover_it(lag, policies, tmp_path):
    """Checkpoints are those of 0, 2, 4 and 5 iterations; the last two are kept."""
    run = manifest(tmp_path / "kept", "disaggregated", lag)
    assert run_step("provision", step(run, tmp_path / "a", 0)) == 0
    player = threading.Thread(target=run_step, args=("rollout", step(run, tmp_path / "a", 0)))
    player.start()
    assert run_step("update", step(run, tmp_path / "b", 0)) == 0
    player.join()
    store = DirectoryStore(tmp_path / "kept")
    (key,) = store.list(keys.TRAJECTORIES)
    assert keys.played(key) == (4, {0: 4, 1: 3, 3: 1}[lag])
    kept = {key.split("/")[1] for key in store.list(keys.POLICIES)}
    assert kept == {f"00000{policy}" for policy in policies}
