"""Exit codes, termination messages and the recorded state of failed stages."""

import json

from stage_run import manifest, stage_context

from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.storage.records import read_state
from agentrl_pipelines.stages.runner import run_stage


def test_a_wrong_manifest_is_a_permanent_failure_and_a_damaged_store_is_not(tmp_path):
    run = manifest(tmp_path / "kept")
    assert run_stage("provision", stage_context(run, tmp_path / "s", 0)) == 0
    other = run.model_copy(update={"spec": run.spec.model_copy(update={"seed": 1})})
    termination_log = tmp_path / "termination-log"
    termination_log.touch()
    assert run_stage("train", stage_context(other, tmp_path / "s", 0), termination_log) == 2
    message = json.loads(termination_log.read_text())
    assert (message["reason"], message["final"]) == ("SpecError", True)
    assert "spec.seed" in message["message"]
    state = read_state(DirectoryStore(tmp_path / "kept"))
    assert (state.status, state.reason, state.final) == ("failed", "SpecError", True)
    assert (state.failed_phase, state.failed_attempt) == (0, 0)

    (tmp_path / "kept" / keys.RUN).write_bytes(b"{")
    assert run_stage("expand", stage_context(run, tmp_path / "s", 0), termination_log) == 1
    assert json.loads(termination_log.read_text())["final"] is False


def test_a_later_phase_does_not_start_on_a_store_without_the_run(tmp_path):
    """For example after storage.endpoint was changed to another service."""
    run = manifest(tmp_path / "elsewhere")
    assert run_stage("provision", stage_context(run, tmp_path / "s", 1)) == 1
    state = read_state(DirectoryStore(tmp_path / "elsewhere"))
    assert (state.reason, state.final) == ("StoreError", False)
    assert "holds nothing of this run" in state.message


def test_a_stage_gives_up_when_its_partner_failed_permanently(tmp_path):
    run = manifest(tmp_path / "kept", "disaggregated")
    assert run_stage("provision", stage_context(run, tmp_path / "s", 0)) == 0
    store = DirectoryStore(tmp_path / "kept")
    cause = {
        "status": "failed",
        "reason": "ModelError",
        "message": "no weights",
        "final": True,
        "failed_phase": 0,
        "failed_attempt": 0,
    }
    state = read_state(store).model_copy(update=cause)
    store.replace(keys.STATE, state.model_dump_json().encode())
    assert run_stage("rollout", stage_context(run, tmp_path / "s", 0)) == 1
    assert read_state(store) == state, "the cause of the failure must remain the partner's"
