"""How a stage that fails ends, and what it tells."""

import json

from stage_run import manifest, step

from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.storage.records import read_state
from agentrl_pipelines.stages.runner import run_step


def test_a_mistake_is_told_as_final_and_a_broken_store_is_not(tmp_path):
    run = manifest(tmp_path / "kept")
    assert run_step("provision", step(run, tmp_path / "s", 0)) == 0
    other = run.model_copy(update={"spec": run.spec.model_copy(update={"seed": 1})})
    ended = tmp_path / "termination-log"
    ended.touch()
    assert run_step("train", step(other, tmp_path / "s", 0), ended) == 2
    told = json.loads(ended.read_text())
    assert (told["reason"], told["final"]) == ("SpecError", True)
    assert "spec.seed" in told["message"]
    state = read_state(DirectoryStore(tmp_path / "kept"))
    assert (state.status, state.reason, state.final) == ("failed", "SpecError", True)

    (tmp_path / "kept" / keys.RUN).write_bytes(b"{")
    assert run_step("expand", step(run, tmp_path / "s", 0), ended) == 1
    assert json.loads(ended.read_text())["final"] is False


def test_a_later_phase_does_not_begin_in_a_store_that_does_not_hold_the_run(tmp_path):
    """As when storage.endpoint was changed to a service that has nothing of it."""
    run = manifest(tmp_path / "elsewhere")
    assert run_step("provision", step(run, tmp_path / "s", 1)) == 1
    state = read_state(DirectoryStore(tmp_path / "elsewhere"))
    assert (state.reason, state.final) == ("StoreError", False)
    assert "holds nothing of this run" in state.message


def test_the_other_side_gives_up_when_its_partner_has_failed_for_good(tmp_path):
    run = manifest(tmp_path / "kept", "disaggregated")
    assert run_step("provision", step(run, tmp_path / "s", 0)) == 0
    store = DirectoryStore(tmp_path / "kept")
    cause = {"status": "failed", "reason": "ModelError", "message": "no weights", "final": True}
    state = read_state(store).model_copy(update=cause)
    store.replace(keys.STATE, state.model_dump_json().encode())
    assert run_step("rollout", step(run, tmp_path / "s", 0)) == 1
    assert read_state(store) == state, "what the partner failed of is what the run failed of"
