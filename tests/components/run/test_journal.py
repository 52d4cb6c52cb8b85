"""The journal of a run in its store."""

import json

import pytest

from agentrl_components.errors import SpecError
from agentrl_components.run.journal import Journal
from agentrl_components.spec import AgentRLRun, parse
from agentrl_components.storage import keys
from agentrl_components.storage.open import MemoryStore
from agentrl_components.storage.records import read_state

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
