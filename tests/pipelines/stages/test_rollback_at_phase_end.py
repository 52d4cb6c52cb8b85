"""A rollback after the last iteration of a phase: the restored weights are evaluated."""

import json
from pathlib import Path

from stage_run import manifest, stage_context

from agentrl_components.evaluation.summary import HeldoutResult
from agentrl_components.spec import AgentRLRun
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.storage.records import load_record, read_state
from agentrl_pipelines.stages.runner import run_stage

COLLAPSED, RESTORED = "iteration-000003", "iteration-000003-restored"


def rolled_back(store: Path) -> AgentRLRun:
    """The alarm fires after the three iterations of the first phase. A checkpoint is saved after
    two of them, and every iteration is evaluated."""
    alarm = {"action": "rollback", "window": 3, "rewardStdBelow": 1}
    phases = [{"maxTurns": turns, "iterations": 3} for turns in (4, 5)]
    return manifest(
        store,
        horizon={"phases": phases, "alarms": [alarm]},
        evaluation={"every": 1, "temperature": 1.0, "samples": 4},
        update={"learningRate": 1e-2},
    )


def test_the_evaluation_of_a_phase_that_a_rollback_ended_is_of_the_restored_weights(tmp_path):
    """The stages are processes of their own: the evaluation resumes after the rollback."""
    run, store = rolled_back(tmp_path / "kept"), DirectoryStore(tmp_path / "kept")
    for name in ("provision", "train", "evaluate"):
        assert run_stage(name, stage_context(run, tmp_path, 0)) == 0
    decision = json.loads(store.get(keys.iteration(2)))["decision"]
    assert (decision["action"], decision["checkpoint"], decision["phase"]) == ("rollback", 1, 1)

    def result(name: str) -> HeldoutResult:
        found = load_record(store, keys.evaluation(name), HeldoutResult)
        return found.model_copy(update={"name": ""})

    # The same weights, tasks and seeds as after the iteration whose checkpoint was restored.
    assert result(RESTORED) == result("iteration-000002")
    assert result(RESTORED) != result(COLLAPSED)
    state = read_state(store)
    assert (state.heldout.name, state.heldout.success) == (RESTORED, result(RESTORED).success)
    artifact = json.loads((tmp_path / "artifacts" / "evaluation.json").read_text())
    assert artifact["success"] == result(RESTORED).success
    assert state.best == 2

    report = json.loads((tmp_path / "report.json").read_text())
    names = [one["found"]["name"] for one in report["evaluations"]]
    assert names[-2:] == [COLLAPSED, RESTORED]
    assert [one["iterations"] for one in report["evaluations"]] == [1, 2, 3, 3]

    again = stage_context(run, tmp_path, 0)
    assert run_stage("evaluate", again) == 0
    assert again.view.stages == []
    assert read_state(store).heldout == state.heldout
