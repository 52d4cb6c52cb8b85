"""The journal of a run in its store."""

import json
import math

import pytest
from iteration_records import iteration_record

from agentrl_components.errors import SpecError
from agentrl_components.run.journal import Journal
from agentrl_components.schedule.record import Decision, FiredAlarm, IterationRecord
from agentrl_components.spec import AgentRLRun, parse
from agentrl_components.storage import keys
from agentrl_components.storage.open import MemoryStore
from agentrl_components.storage.records import load_record, read_state

SPEC = {
    "environments": [{"name": "walk", "builtin": "corridor"}],
    "horizon": {"phases": [{"maxTurns": 2, "iterations": 5}]},
}


def run(name: str = "demo", **spec: object) -> AgentRLRun:
    return parse(
        {
            "apiVersion": "agentrl.dev/v1alpha1",
            "kind": "AgentRLRun",
            "metadata": {"name": name},
            "spec": SPEC | spec,
        }
    )


def test_mutable_fields_may_change_and_the_newest_manifest_is_stored():
    store = MemoryStore()
    Journal(store).begin(run())
    world = {"name": "walk", "builtin": "corridor", "replicas": 4, "memory": "2Gi", "timeoutS": 9.0}
    Journal(store).begin(
        run(
            environments=[world],
            rollout={"concurrency": 8, "maxLostShare": 0.5},
            update={"keepLast": 5, "gradientCheckpointing": True},
            compute={"memory": "8Gi", "workers": 1},
            backoffLimit=9,
        )
    )
    kept = json.loads(store.get(keys.RUN))["spec"]
    assert (kept["environments"][0]["replicas"], kept["update"]["keepLast"]) == (4, 5)


def test_labels_of_a_run_are_stored_and_may_differ_from_those_before():
    store = MemoryStore()
    metadata = {"name": "demo", "namespace": None}  # as stored by a version without labels
    old = run().model_dump(mode="json", by_alias=True) | {"metadata": metadata}
    store.put(keys.RUN, json.dumps(old).encode())
    labelled = run().model_dump(mode="json", by_alias=True)
    labelled["metadata"]["labels"] = {"team": "agents"}
    Journal(store).begin(AgentRLRun.model_validate(labelled))
    assert json.loads(store.get(keys.RUN))["metadata"]["labels"] == {"team": "agents"}
    Journal(store).begin(run())


def test_a_store_with_another_run_is_refused_with_every_field_that_differs():
    store = MemoryStore()
    Journal(store).begin(run(update={"learningRate": 1e-3}))
    with pytest.raises(SpecError) as refused:
        Journal(store).begin(run("other", seed=3))
    assert refused.value.mistakes == [
        f"{path}: memory: holds a run that began with {old}, not {new}; restore the value, or "
        "start a new run (on one machine: use another --root)"
        for path, old, new in (
            ("spec.seed", "0", "3"),
            ("spec.update.learningRate", "0.001", "1e-06"),
            ("metadata.name", "'demo'", "'other'"),
        )
    ]


def test_a_final_failure_of_the_other_process_is_not_overwritten():
    """For example the playing process fails while the learning process is in the last iteration."""
    store = MemoryStore()
    learning = Journal(store)
    learning.write_state("running", "", iteration=3)
    Journal(store).write_state("failed", "rollout: no such task", reason="TaskError", final=True)
    for done in (4, 5):
        learning.write_state("running", "the horizon grows", iteration=done)
        state = read_state(store)
        assert (state.status, state.message) == ("failed", "rollout: no such task")
        assert (state.reason, state.final, state.iteration) == ("TaskError", True, done)


def test_a_process_started_after_a_failure_clears_it():
    store = MemoryStore()
    Journal(store).write_state("failed", "rollout: no such task", reason="TaskError", final=True)
    Journal(store).write_state("running", "the environments answer")
    state = read_state(store)
    assert (state.status, state.reason, state.final) == ("running", "", False)


def test_the_state_counts_no_iteration_whose_record_is_deleted():
    store = MemoryStore()
    journal = Journal(store)
    for number in range(3):
        store.put(keys.iteration(number), b"{}")
    journal.write_state("running", "", iteration=3)
    journal.truncate(1)
    assert read_state(store).iteration == 1
    assert list(store.list(keys.ITERATIONS)) == [keys.iteration(0)]


def finished(norm):
    """The record of the first iteration, whose alarm fires with the gradient norm `norm`."""
    fired = FiredAlarm(
        alarm=0, signal="grad_norm_above", action="record", value=norm, bound=5, message="norm"
    )
    decision = Decision(action="continue", phase=0, max_turns=2, reason="", alarms=(fired,))
    return iteration_record(
        iteration=0, phase=0, max_turns=2, success=0.25, grad_norm=norm, decision=decision
    )


@pytest.mark.parametrize(
    ("norm", "text"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")]
)
def test_an_iteration_with_a_norm_that_is_not_finite_is_valid_json_and_is_read_again(norm, text):
    store = MemoryStore()
    Journal(store).write_iteration(finished(norm))
    stored = json.loads(store.get(keys.iteration(0)), parse_constant=pytest.fail)
    assert stored["metrics"] == {"train/success": 0.25, "update/grad_norm": text}
    assert stored["decision"]["alarms"][0]["value"] == text
    read = load_record(store, keys.iteration(0), IterationRecord)
    assert repr(read) == repr(finished(norm))


FINITE = """{
 "checkpointed": false,
 "decision": {
  "action": "continue",
  "alarms": [
   {
    "action": "record",
    "alarm": 0,
    "bound": 5.0,
    "message": "norm",
    "signal": "grad_norm_above",
    "value": 0.1
   }
  ],
  "checkpoint": null,
  "max_turns": 2,
  "phase": 0,
  "reason": ""
 },
 "heldout": null,
 "iteration": 0,
 "max_turns": 2,
 "metrics": {
  "train/success": 0.25,
  "update/grad_norm": 0.1
 },
 "phase": 0,
 "restored": false,
 "staleness": 0,
 "version": 0
}"""
"""The record `finished(0.1)` as it is stored."""


def test_the_bytes_of_a_finite_iteration_are_sorted_json():
    store = MemoryStore()
    Journal(store).write_iteration(finished(0.1))
    assert store.get(keys.iteration(0)).decode() == FINITE


def test_evaluations_of_weights_that_a_resumed_run_does_not_have_are_deleted():
    """An evaluation comes before the record of its iteration, here the third one."""
    store = MemoryStore()
    journal = Journal(store)
    for number in range(2):
        journal.write_iteration(committed(number))
    restored = {f"iteration-00000{number}-restored" for number in (2, 3)}
    names = ("random", "before", "iteration-000002", "iteration-000003", "after", *restored)
    for name in names:
        store.replace(keys.evaluation(name), b"{}")
        store.replace(keys.episodes(name), b"")
    journal.truncate(2)
    assert kept_evaluations(store) == {
        *("random", "before", "iteration-000002", "iteration-000002-restored", "after")
    }
    journal.truncate(1)
    assert kept_evaluations(store) == {"random", "before"}


def committed(number: int) -> IterationRecord:
    """The record of an iteration with its decision."""
    decision = Decision(action="continue", phase=0, max_turns=2, reason="")
    return iteration_record(iteration=number, phase=0, max_turns=2, decision=decision)


def kept_evaluations(store: MemoryStore) -> set[str]:
    """The names of the evaluations that the store has."""
    return {keys.evaluation_name(key) for key in store.list(keys.EVALUATIONS)}
