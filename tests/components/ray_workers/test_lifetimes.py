"""Actors that stay when their driver ends, and are taken over by the next one.

In most tests two groups of actors of this process stand for those of two drivers."""

import json
import os
import signal
import subprocess
import sys

import psutil
import pytest
from blocking_tasks import BlockingTasks
from corridor_jobs import jobs
from corridor_rules import RULES
from corridor_server import served
from free_ports import free_ports
from learner_bench import spec
from ray_bench import (
    connected,
    model_folder,
    pid,
    reserved,
    sessions,
    train,
)
from ray_nodes import started
from spawned_processes import existing

from agentrl_components.errors import EngineError, RunError, WorkersLostError
from agentrl_components.ray_workers.calls.results import results
from agentrl_components.ray_workers.group_samplers import RayGroupSamplers
from agentrl_components.ray_workers.hand_over.buckets import BucketTransfer
from agentrl_components.ray_workers.lifetimes import Lasting, WithDriver, lifetime_of
from agentrl_components.ray_workers.samplers import RaySamplers
from agentrl_components.ray_workers.trainers import RayTrainers

pytest.importorskip("ray")
from ray.exceptions import RayError

slow = pytest.mark.slow

SPEC = spec(update={"learningRate": 1e-3, "miniBatch": 4, "microBatchTokens": 90})
HEAD = "127.0.0.3"
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef0123456789abcdef"}
DRIVER = """
import json, os, pathlib, signal, sys
from ray_bench import pid
from agentrl_components.errors import WorkersLostError
from agentrl_components.ray_workers.actors import Actors
from agentrl_components.ray_workers.model_folder import ModelFolder
from agentrl_components.spec import RunSpec

spec = RunSpec.model_validate_json(os.environ["SPEC"])
model = ModelFolder(path=pathlib.Path(os.environ["MODEL"]), vocabulary=())
with Actors(spec, model, trains=True, note=lambda _: None) as actors:
    pids = [pid(actor) for actor in (*actors.trainers._actors, *actors.samplers.actors)]
    print(json.dumps([actors.taken_over, pids]), flush=True)
    exec(sys.argv[1])
"""

KILLED_IN_A_HAND_OVER = """
import ray
(sampler,) = actors.samplers.actors
ray.get(sampler.start_update.remote("killed"))
ray.get(sampler.load.remote("killed", next(actors.trainers.source.buckets(limit=1))))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def ray():
    with connected(trainers=2, samplers=2) as ray:
        yield ray


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return model_folder(SPEC, tmp_path_factory.mktemp("model"))


def pids(actors):
    return [pid(actor) for actor in actors]


def trainers(model, made_of="a"):
    return RayTrainers(SPEC, model, reserved(trainers=2), "cpu", Lasting(made_of)).open()


def samplers(model, transfer=None, manifest=SPEC):
    return RaySamplers(manifest, model, reserved(samplers=2), "cpu", transfer, Lasting("a")).open()


def with_environment(url):
    """The manifest with an environment server."""
    environment = SPEC.environments[0].model_copy(update={"builtin": None, "url": url})
    return SPEC.model_copy(update={"environments": (environment,)})


def test_actors_stay_on_the_cluster_that_is_the_runs_own_alone():
    embedded, own = (spec(compute={"ray": one}) for one in ("embedded", "cluster"))
    assert isinstance(lifetime_of(embedded, (), trains=True, code="1"), WithDriver)
    lasting = lifetime_of(own, ("a",), trains=True, code="1")
    assert lasting == lifetime_of(own, ("a",), trains=True, code="1")
    assert lasting != lifetime_of(own, ("b",), trains=True, code="1")
    assert lasting != lifetime_of(own, ("a",), trains=False, code="1")


def test_actors_that_run_other_code_are_created_from_something_else():
    own = spec(compute={"ray": "cluster"})
    codes = [lifetime_of(own, (), trains=True, code=code).made_of for code in ("1", "2")]
    assert codes[0] != codes[1]


def test_trainers_that_are_taken_over_are_those_of_the_model_folder_again(ray, model):
    first = trainers(model)
    start = first.state()
    train(first, SPEC, 2)
    trained = first.state()
    second = trainers(model)
    try:
        assert (first.taken_over, second.taken_over) == (0, 2)
        assert pids(second._actors) == pids(first._actors)
        assert second.state() == start
        train(second, SPEC, 2)
        assert second.state() == trained
    finally:
        second.close()


@slow
def test_trainers_of_which_one_died_are_all_replaced(ray, model):
    first = trainers(model)
    before = pids(first._actors)
    os.kill(before[1], signal.SIGKILL)
    second = trainers(model)
    try:
        assert second.taken_over == 0
        assert not set(pids(second._actors)) & set(before)
    finally:
        second.close()


@slow
def test_trainers_of_which_one_waits_for_a_call_that_another_never_got_are_replaced(ray, model):
    first = trainers(model)
    before = pids(first._actors)
    gathered = first._actors[0].buckets.options(num_returns="streaming").remote(1 << 20)
    lifetime = Lasting("a", answer_s=600)  # the other's answer shows that none will come
    second = RayTrainers(SPEC, model, reserved(trainers=2), "cpu", lifetime).open()
    try:
        assert second.taken_over == 0
        assert not set(pids(second._actors)) & set(before)
    finally:
        second.close()
        del gathered


@slow
def test_actors_that_were_created_from_something_else_are_replaced(ray, model):
    first = trainers(model)
    before = pids(first._actors)
    second = trainers(model, made_of="b")
    try:
        assert second.taken_over == 0
        assert not set(pids(second._actors)) & set(before)
    finally:
        second.close()


def test_samplers_that_are_taken_over_end_the_episodes_under_way_and_play_new_weights(ray, model):
    learners = RayTrainers(SPEC, model, reserved(trainers=1), "cpu").open()
    try:
        with served() as url:
            manifest = with_environment(url)
            transfer = BucketTransfer(learners.source, adapters=False)
            first = samplers(model, transfer, manifest)
            expected = first.play([jobs(4)], RULES, 3)[0]
            groups = RayGroupSamplers(first)
            for number in range(20):
                groups.start(number, jobs(4), RULES)
            second = samplers(model, transfer, manifest)
            try:
                assert second.taken_over == 2
                assert pids(second.actors) == pids(first.actors)
                assert sessions(url) == 0
                played = second.play([jobs(4)], RULES, 2)[0]
                assert [set(one.versions.tolist()) for one in played] == [{2}] * 4
                assert [one.ids.tolist() for one in played] == [e.ids.tolist() for e in expected]
                second.rest()
                assert sessions(url) == 0
            finally:
                second.close()
    finally:
        learners.close()


def test_a_take_over_refuses_late_calls_and_waits_for_sessions_that_are_being_opened(ray, model):
    tasks = BlockingTasks()
    with served(tasks) as url, tasks.opened_on_exit():
        first = samplers(model, manifest=with_environment(url))
        try:
            first.play([jobs(4), jobs(4)], RULES, 3)
            tasks.block_resets = True
            actor = first.actors[0]
            playing = actor.play_group.remote(jobs(4), RULES, 3)
            assert tasks.waiting.wait(60)
            taking = actor.take_over.remote()
            late = actor.play_group.remote(jobs(4), RULES, 3)
            with pytest.raises((WorkersLostError, RayError)):  # RayError: it came first
                results([late])
            assert ray.wait([taking, playing], timeout=0)[0] == []
            tasks.gate.set()
            ray.get(taking)
            assert sessions(url) == 0
        finally:
            first.close()


@pytest.mark.parametrize("interrupt", ["finish", "continue"])
def test_samplers_that_are_taken_over_in_a_hand_over_play_the_weights_of_the_next(
    ray, model, interrupt
):
    rollout = SPEC.rollout.model_copy(update={"interrupt": interrupt})
    manifest = SPEC.model_copy(update={"rollout": rollout})
    learners = RayTrainers(manifest, model, reserved(trainers=1), "cpu").open()
    try:
        train(learners, manifest, 2)
        transfer = BucketTransfer(learners.source, adapters=False)
        first = samplers(model, transfer, manifest)
        expected = [one.ids.tolist() for one in first.play([jobs(4)], RULES, 3)[0]]
        groups = RayGroupSamplers(first)
        for number in range(20):
            groups.start(number, jobs(4), RULES)
        broken = first.actors[0]
        started = broken.start_update.remote(
            "broken"
        )  # waits for the groups, if they are to finish
        weights = list(learners.source.buckets(limit=1))
        loaded = broken.load.remote("broken", weights[0]) if interrupt == "continue" else None
        second = samplers(model, transfer, manifest)
        try:
            assert second.taken_over == 2
            assert pids(second.actors) == pids(first.actors)
            ray.get([started, loaded] if loaded else [started])
            played = second.play([jobs(4)], RULES, 1)[0]
            assert [one.ids.tolist() for one in played] == expected
            assert [set(one.versions.tolist()) for one in played] == [{1}] * 4
        finally:
            second.close()
    finally:
        learners.close()


def test_weights_of_a_hand_over_that_was_given_up_are_refused(ray, model):
    learners = RayTrainers(SPEC, model, reserved(trainers=1), "cpu").open()
    try:
        transfer = BucketTransfer(learners.source, adapters=False)
        first = samplers(model, transfer)
        expected = [one.ids.tolist() for one in first.play([jobs(4)], RULES, 1)[0]]
        sampler, (bucket, *_) = first.actors[0], list(learners.source.buckets(limit=1))
        ray.get(sampler.start_update.remote("given up"))
        second = samplers(model, transfer)
        try:
            late = [sampler.load.remote("given up", bucket)]
            late += [sampler.finish_update.remote("given up", 9)]
            for call in late:
                with pytest.raises(WorkersLostError, match="was given up"):
                    results([call])
            ray.get(sampler.start_update.remote("given up"))  # the next hand-over drops it
            played = second.play([jobs(4)], RULES, 1)[0]
            assert [one.ids.tolist() for one in played] == expected
        finally:
            second.close()
    finally:
        learners.close()


@slow
def test_a_sampler_whose_hand_over_failed_is_taken_over(ray, model):
    first = samplers(model)
    ray.get(first.actors[0].start_update.remote("failed"))
    with pytest.raises(EngineError, match="missing"):
        ray.get(first.actors[0].finish_update.remote("failed", 1))
    second = samplers(model)
    assert second.taken_over == 2
    second.close()


def test_actors_whose_class_ray_has_deleted_are_ended(ray):
    class Counter:
        def take_over(self):
            return os.getpid()

    gcs = ray._private.worker.global_worker.gcs_client
    exported = set(gcs.internal_kv_keys(b"ActorClass", b"fun"))
    names = ("counter-0", "counter-1")
    lifetime = Lasting("a")
    remote = ray.remote(num_cpus=0)(Counter)
    first = [remote.options(**lifetime.options(name)).remote() for name in names]
    before = ray.get([one.take_over.remote() for one in first])
    for key in set(gcs.internal_kv_keys(b"ActorClass", b"fun")) - exported:
        gcs.internal_kv_del(key, False, b"fun")
    assert lifetime.take_over(names, all_or_none=False) == [None, None]
    assert psutil.wait_procs(existing(before), timeout=60)[1] == []


@slow
def test_a_sampler_that_dies_is_replaced_under_its_name(ray, model):
    first = samplers(model)
    try:
        before = pids(first.actors)
        os.kill(before[1], signal.SIGKILL)
        assert len(first.play([jobs(2), jobs(2)], RULES, 0)) == 2
        after = pids(first.actors)
        assert (after[0] == before[0], after[1] == before[1]) == (True, False)
        second = samplers(model)
        assert second.taken_over == 2
    finally:
        first.close()


@slow
def test_actors_are_not_taken_over_while_another_driver_lives(ray, model):
    address = ray.get_runtime_context().gcs_address
    join = f"import ray, sys; ray.init({address!r}, log_to_driver=False); print(); sys.stdin.read()"
    command = [sys.executable, "-c", join]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        told = rf"another process uses the Ray cluster .*PID {other.pid} at .*; end that process"
        with pytest.raises(RunError, match=told):
            RayTrainers(SPEC, model, reserved(trainers=2), "cpu", Lasting("a", wait_s=1.0)).open()
        other.communicate()
    trainers(model).close()


@pytest.fixture(scope="module")
def own_cluster():
    """The address of a cluster with a trainer and a sampler, as KubeRay would start it."""
    (port,) = free_ports(1)
    resources = json.dumps({"trainers": 1, "samplers": 1})
    flags = ("--head", f"--port={port}", "--num-cpus=2", "--include-dashboard=false")
    flags += (f"--resources={resources}",)
    with started(HEAD, *flags, env=os.environ | TOKEN):
        yield f"{HEAD}:{port}"


@slow
def test_actors_outlive_drivers_that_end_or_are_killed_but_not_an_error(own_cluster, model):
    def driver(end):
        """What a driver took over, and the processes of its actors."""
        compute = {"ray": "cluster", "trainers": {"cpu": "100m"}, "samplers": {"cpu": "100m"}}
        env = TOKEN | {
            "RAY_ADDRESS": own_cluster,
            "SPEC": spec(compute=compute).model_dump_json(by_alias=True),
            "MODEL": str(model.path),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        command = [sys.executable, "-c", DRIVER, end]
        ended = subprocess.run(
            command, env=os.environ | env, capture_output=True, text=True, check=False
        )
        assert ended.stdout, ended.stderr
        return json.loads(ended.stdout)

    nothing, first = driver("pass")
    assert nothing == ""
    assert driver("os.kill(os.getpid(), signal.SIGKILL)") == ["1 trainers, 1 samplers", first]
    assert driver(KILLED_IN_A_HAND_OVER) == ["1 trainers, 1 samplers", first]
    assert driver("raise WorkersLostError('a trainer')") == ["1 trainers, 1 samplers", first]
    samplers_only, last = driver("raise ValueError")
    assert samplers_only == "1 samplers"
    assert (last[0] == first[0], last[1] == first[1]) == (False, True)
    assert psutil.wait_procs(existing(last), timeout=60)[1] == []
