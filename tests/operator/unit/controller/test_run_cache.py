"""What is kept of a run between two looks."""

import json
import tracemalloc

from world import PLATFORM, SPEC, UID

from agentrl_components.spec import GROUP, KIND, VERSION
from agentrl_operator.api.resource import FINALIZER
from agentrl_operator.controller.run_cache import Known, Manifests


def body(version="7", **metadata):
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {
            "name": "demo",
            "namespace": "kubeflow",
            "uid": UID,
            "generation": 1,
            "resourceVersion": version,
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
            "managedFields": [{"manager": "kubectl"}],
            **metadata,
        },
        "spec": SPEC,
        "status": {"state": "Running", "attempt": 1},
    }


def test_a_run_is_kept_without_what_nobody_asks_for():
    kept = Known.of(body(finalizers=[FINALIZER]))

    assert kept.metadata == {
        "name": "demo",
        "namespace": "kubeflow",
        "uid": UID,
        "generation": 1,
        "resourceVersion": "7",
        "finalizers": [FINALIZER],
    }
    assert (kept.uid, kept.version, kept.state) == (UID, 7, "Running")
    assert kept.status == {"state": "Running", "attempt": 1}


def test_a_run_without_a_status_is_pending():
    new = body()
    del new["status"]

    assert Known.of(new).state == "Pending"
    assert Known.of(new).status == {}


def test_a_version_alone_makes_no_difference():
    before = Known.of(body())

    assert before.like(Known.of(body(version="8", managedFields=[])))
    assert not before.like(Known.of(body(version="8", finalizers=[FINALIZER])))
    assert not before.like(Known.of(body(version="8", deletionTimestamp="2026-01-01T00:00:00Z")))
    assert not before.like(Known.of(body() | {"status": {"state": "Succeeded"}}))
    assert not before.like(Known.of(body() | {"spec": SPEC | {"suspend": True}}))


def test_a_manifest_is_checked_once_while_it_is_looked_at():
    manifests = Manifests(PLATFORM)
    first = manifests.resource(Known.of(body()))
    held = manifests.resource(Known.of(body(version="8", finalizers=[FINALIZER])))
    changed = manifests.resource(Known.of(body(generation=2) | {"spec": SPEC | {"seed": 7}}))

    assert (first.held, held.held) == (False, True)
    assert held.run is first.run
    assert (first.run.spec.seed, changed.run.spec.seed) == (0, 7)


def test_a_mistake_is_told_at_every_look():
    wrong = Known.of(body() | {"spec": SPEC | {"seed": -1, "suspend": True}})
    manifests = Manifests(PLATFORM)

    for _ in range(2):
        resource = manifests.resource(wrong)
        assert resource.run is None
        assert resource.suspend
        assert resource.mistakes[0].startswith("spec.seed: ")


def test_a_run_takes_a_few_kilobytes():
    text = json.dumps(body())
    tracemalloc.start()
    try:
        kept = [Known.of(json.loads(text)) for _ in range(100)]
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert used / len(kept) < len(text) + 2500
