"""Runs cached between two reconciliations."""

import json
import tracemalloc

from world import PLATFORM, SPEC, UID

from agentrl_components.spec import GROUP, KIND, VERSION
from agentrl_operator.api.resource import FINALIZER
from agentrl_operator.controller.run_cache import CachedRun, ResourceParser, RunCache


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


def test_a_run_is_cached_without_unused_metadata():
    kept = CachedRun.from_object(body(finalizers=[FINALIZER]))

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

    assert CachedRun.from_object(new).state == "Pending"
    assert CachedRun.from_object(new).status == {}


def test_the_resource_version_alone_makes_no_difference():
    before = CachedRun.from_object(body())

    def same(changed):
        return before.same_content(CachedRun.from_object(changed))

    assert same(body(version="8", managedFields=[]))
    assert not same(body(version="8", finalizers=[FINALIZER]))
    assert not same(body(version="8", deletionTimestamp="2026-01-01T00:00:00Z"))
    assert not same(body() | {"status": {"state": "Succeeded"}})
    assert not same(body() | {"spec": SPEC | {"suspend": True}})


KEY = ("kubeflow", "demo")
OTHER = "7b1b2c3d-0000-4000-8000-000000000002"


def test_an_older_version_of_a_run_is_not_cached():
    cache = RunCache()
    assert cache.store(body(version="8")) is cache.get(KEY)
    assert cache.store(body(version="7")) is None
    assert cache.store(body(version="10")) is cache.get(KEY)
    assert (cache.get(KEY).version, cache.states()) == (10, ["Running"])


def test_a_run_takes_the_place_of_an_earlier_one_of_its_name():
    cache = RunCache()
    cache.store(body(version="8"))
    assert cache.store(body(version="3", uid=OTHER)) is cache.get(KEY)
    assert (cache.uids(), cache.key(UID), cache.key(OTHER)) == ({OTHER}, None, KEY)

    assert cache.delete(UID) is None
    assert cache.get(KEY).uid == OTHER


def test_a_deleted_run_is_not_cached_again():
    cache = RunCache()
    cache.store(body())
    assert cache.delete(UID) == KEY
    assert (KEY in cache, len(cache), cache.key(UID)) == (False, 0, None)
    assert cache.store(body(version="9")) is None
    assert cache.uids() == set()


def test_a_manifest_is_parsed_once():
    parser = ResourceParser(PLATFORM)
    first = parser.parse(CachedRun.from_object(body()))
    held = parser.parse(CachedRun.from_object(body(version="8", finalizers=[FINALIZER])))
    changed = parser.parse(CachedRun.from_object(body(generation=2) | {"spec": SPEC | {"seed": 7}}))

    assert (first.has_finalizer, held.has_finalizer) == (False, True)
    assert held.run is first.run
    assert (first.run.spec.seed, changed.run.spec.seed) == (0, 7)


def test_the_errors_of_a_manifest_are_cached_with_it():
    wrong = CachedRun.from_object(body() | {"spec": SPEC | {"seed": -1, "suspend": True}})
    parser = ResourceParser(PLATFORM)

    for _ in range(2):
        resource = parser.parse(wrong)
        assert resource.run is None
        assert resource.suspend
        assert resource.mistakes[0].startswith("spec.seed: ")


def test_a_run_takes_a_few_kilobytes():
    text = json.dumps(body())
    tracemalloc.start()
    try:
        kept = [CachedRun.from_object(json.loads(text)) for _ in range(100)]
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert used / len(kept) < len(text) + 2500
