"""Episodes played ahead (`maxStaleness`) are dropped at the end of a phase and at a rollback."""

import json
import threading

import pytest
from stage_run import iteration_records, manifest, run_disaggregated, stage_context

from agentrl_components.run.progress import SilentProgressView
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.tracking.tracker import MemoryTracker
from agentrl_pipelines.local.run import run_local
from agentrl_pipelines.stages.runner import run_stage


def test_episodes_played_for_a_phase_that_ended_early_are_dropped(tmp_path):
    """Success above 0.1 ends the first phase after 6 of at most 8 iterations, with the last two
    played already, and the second phase after 3."""
    phases = [{"maxTurns": turns, "iterations": 8, "minIterations": 3} for turns in (2, 4)]
    early = {"phases": phases, "advance": "success", "successAbove": 0.1, "window": 2}
    run = manifest(tmp_path / "one", lag=3, horizon=early)
    run_local(run, tmp_path / "run", SilentProgressView(), MemoryTracker())
    history = [json.loads(line) for line in iteration_records(tmp_path / "one")]
    assert [line["max_turns"] for line in history] == [2] * 6 + [4] * 3
    measured = [line["metrics"]["train/staleness"] for line in history]
    assert measured == [0.0, 1, 2, 3, 3, 3, 0, 1, 2]
    kept = DirectoryStore(tmp_path / "one").list(keys.TRAJECTORIES)
    assert [keys.iteration_and_policy(key) for key in kept] == [(8, 6)]

    apart = manifest(tmp_path / "two", "disaggregated", 3, horizon=early)
    assert run_disaggregated(apart, tmp_path / "scratch") == 9
    assert iteration_records(tmp_path / "two") == iteration_records(tmp_path / "one")


def test_episodes_played_ahead_are_dropped_after_a_rollback(tmp_path):
    alarm = {"action": "rollback", "window": 2, "entropyBelow": 50}
    phases = [{"maxTurns": 4, "iterations": 8}]
    changes = {"horizon": {"phases": phases, "alarms": [alarm]}, "update": {"keepLast": 20}}
    run = manifest(tmp_path / "one", lag=2, **changes)
    run_local(run, tmp_path / "run", SilentProgressView(), MemoryTracker())
    history = [json.loads(line) for line in iteration_records(tmp_path / "one")]
    assert [line["decision"]["action"] for line in history].index("rollback") == 4
    assert [line["metrics"]["train/staleness"] for line in history] == [0.0, 1, 2, 2, 2, 0, 1, 2]

    run_disaggregated(
        manifest(tmp_path / "two", "disaggregated", 2, **changes), tmp_path / "scratch", 1
    )
    assert iteration_records(tmp_path / "two") == iteration_records(tmp_path / "one")


@pytest.mark.parametrize(
    ("lag", "policies"), [(0, ["4", "5"]), (1, ["3", "4", "5"]), (3, ["1", "2", "3", "4", "5"])]
)
def test_consumed_episodes_are_kept_until_two_checkpoints_cover_them(lag, policies, tmp_path):
    """There are checkpoints at 0, 2, 4 and 5 iterations; the last two are kept."""
    run = manifest(tmp_path / "kept", "disaggregated", lag)
    assert run_stage("provision", stage_context(run, tmp_path / "a", 0)) == 0
    player = threading.Thread(
        target=run_stage, args=("rollout", stage_context(run, tmp_path / "a", 0))
    )
    player.start()
    assert run_stage("update", stage_context(run, tmp_path / "b", 0)) == 0
    player.join()
    store = DirectoryStore(tmp_path / "kept")
    (key,) = store.list(keys.TRAJECTORIES)
    assert keys.iteration_and_policy(key) == (4, {0: 4, 1: 3, 3: 1}[lag])
    kept = {key.split("/")[1] for key in store.list(keys.POLICIES)}
    assert kept == {f"00000{policy}" for policy in policies}
