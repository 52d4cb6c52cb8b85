"""The stages at the end of a phase whose gradients were not finite."""

import json
import math

import pytest
from iteration_records import iteration_record
from stage_run import manifest, stage_context

from agentrl_components.run.journal import Journal
from agentrl_components.schedule.decision import decide
from agentrl_components.storage import checkpoint
from agentrl_components.storage.checkpoint import Checkpoint
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.storage.records import read_decision, read_state
from agentrl_operator.clients.run_store import RunStores
from agentrl_pipelines.cli.commands.metrics import lines
from agentrl_pipelines.stages.runner import run_stage


def run_with_alarm(store, action):
    alarm = {"action": action, "window": 2, "gradNormAbove": 5.0}
    horizon = {
        "phases": [{"maxTurns": 1, "iterations": 2}],
        "advance": "iterations",
        "window": 1,
        "alarms": [alarm],
    }
    return manifest(store, horizon=horizon)


@pytest.fixture(params=["record", "stop"])
def run(request, tmp_path):
    """A run whose two iterations, which are all that it has, had a gradient norm of NaN."""
    run = run_with_alarm(tmp_path / "kept", request.param)
    store = DirectoryStore(tmp_path / "kept")
    journal, history = Journal(store), []
    for number in (0, 1):
        record = iteration_record(
            iteration=number, phase=0, max_turns=1, success=0.5, grad_norm=math.nan
        )
        decision = decide(run.spec.horizon, [*history, record])
        history.append(record.model_copy(update={"decision": decision}))
        journal.write_iteration(history[-1])
    progress = {"history": [one.json_data() for one in history], "rolled_back": []}
    checkpoint.save(store, Checkpoint(iteration=2, files={}, progress=progress))
    return run


async def test_the_operator_reads_the_decision_of_a_phase_with_broken_gradients(run, tmp_path):
    assert run_stage("expand", stage_context(run, tmp_path / "expand", 0)) == 0
    stores = RunStores(lambda storage: DirectoryStore(tmp_path / "kept"), threads=1)
    decision = await stores.read_decision(run.spec.storage, 0)
    stores.close()
    stops = run.spec.horizon.alarms[0].action == "stop"
    assert decision.action == ("stop" if stops else "finish")
    assert [(alarm.signal, alarm.value) for alarm in decision.alarms] == [
        ("grad_norm_above", math.inf)
    ]


def test_settle_reads_the_decision_and_leaves_the_state(run, tmp_path):
    store = DirectoryStore(tmp_path / "kept")
    assert run_stage("expand", stage_context(run, tmp_path / "expand", 0)) == 0
    Journal(store).write_state("running", "as if the stage was killed after the decision")
    before = read_state(store)
    assert run_stage("settle", stage_context(run, tmp_path / "settle", 0)) == 0
    assert read_state(store) == before
    assert read_decision(store, 0).ends_run


def test_metrics_prints_the_norm_as_valid_json(run, tmp_path):
    printed = [
        json.loads(line, parse_constant=pytest.fail)
        for line in lines(DirectoryStore(tmp_path / "kept"))
    ]
    expected = {"train/success": 0.5, "update/grad_norm": "NaN"}
    assert [line["metrics"] for line in printed] == [expected, expected]
