"""Samplers that miss calls, on an embedded Ray."""

import logging
import os
import signal
import time
from itertools import count

import pytest
from corridor_jobs import GREEDY, jobs
from corridor_rules import RULES
from learner_bench import spec
from ray_bench import (
    connected,
    model_folder,
    open_trainers,
    pid,
    reserved,
    train,
)

from agentrl_components.errors import WorkersLostError
from agentrl_components.ray_workers.calls.results import results
from agentrl_components.ray_workers.calls.silence import (
    Progress,
    SilenceWatch,
    ask_actors,
    playing_s,
)
from agentrl_components.ray_workers.group_samplers import RayGroupSamplers
from agentrl_components.ray_workers.hand_over.buckets import BucketTransfer
from agentrl_components.ray_workers.samplers import RaySamplers
from agentrl_components.workers.player import sampler_options

pytest.importorskip("ray")

SPEC = spec(update={"learningRate": 1e-3, "miniBatch": 4, "microBatchTokens": 90})


@pytest.fixture(scope="module")
def ray():
    with connected(trainers=1, samplers=2) as ray:
        yield ray


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return model_folder(SPEC, tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def trainers(ray, model):
    opened = open_trainers(SPEC, model, 1)
    yield opened
    opened.close()


class Unreached:
    """Stands for the connection to a sampler that lives: calls of `method` do not arrive."""

    def __init__(self, actor, method):
        self.actor, self.method = actor, method

    def __getattr__(self, name):
        return self if name == self.method else getattr(self.actor, name)

    def remote(self, *arguments):
        import ray
        from ray.exceptions import ActorUnavailableError

        def fail():
            raise ActorUnavailableError("the connection broke", None)

        return ray.remote(fail).options(num_cpus=0).remote()


class BrokenTransfer:
    """Hands weights over in buckets, and does not reach the second sampler with some calls."""

    def __init__(self, source):
        self.buckets = BucketTransfer(source, adapters=False)
        self.missed = ""
        self.again = []
        """How many samplers each call of `send_again` was for."""

    def send(self, samplers, version):
        first, second = samplers
        return self.buckets.send([first, Unreached(second, self.missed)], version)

    def send_again(self, samplers, version):
        self.again.append(len(samplers))
        return self.buckets.send_again(samplers, version)


def pids(samplers):
    return [pid(actor) for actor in samplers.actors]


def test_a_sampler_that_lives_but_missed_a_call_of_a_hand_over_is_replaced(trainers, model):
    transfer = BrokenTransfer(trainers.source)
    samplers = RaySamplers(SPEC, model, reserved(samplers=2), "cpu", transfer).open()
    groups = RayGroupSamplers(samplers)
    try:
        for version, transfer.missed in enumerate(("start_update", "load", "finish_update"), 1):
            train(trainers, SPEC, 1, seed=version)
            before = pids(samplers)
            samplers.hand_over(version)
            after = pids(samplers)
            assert (after[0] == before[0], after[1] == before[1]) == (True, False)
            first, second = samplers.play([jobs(4), jobs(4)], RULES, version)
            assert [one.ids.tolist() for one in first] == [one.ids.tolist() for one in second]
            assert [one.logprobs.tolist() for one in first] == [
                one.logprobs.tolist() for one in second
            ]
            for number in range(2):
                groups.start(number, jobs(2), RULES)
            ended = {}
            while len(ended) < 2:
                ended.update(groups.wait())
            versions = {v for group in ended.values() for e in group for v in e.versions.tolist()}
            assert versions == {version}
            assert pids(samplers) == after
    finally:
        samplers.close()


def test_samplers_that_die_together_get_the_weights_together(trainers, model):
    transfer = BrokenTransfer(trainers.source)
    samplers = RaySamplers(SPEC, model, reserved(samplers=2), "cpu", transfer)
    notes = []
    samplers.open(notes.append)
    try:
        wanted = samplers.play([jobs(4), jobs(4)], RULES, 1)
        for dead in pids(samplers):
            os.kill(dead, signal.SIGKILL)
        played = samplers.play([jobs(4), jobs(4)], RULES, 1)
        assert transfer.again == [2]
        replaced = [note.partition(":")[0] for note in notes if "is replaced" in note]
        assert replaced == ["sampler-0 is replaced", "sampler-1 is replaced"]
        for share, other in zip(played, wanted, strict=True):
            assert [one.ids.tolist() for one in share] == [one.ids.tolist() for one in other]
    finally:
        samplers.close()


def hang(samplers, place):
    """Have a sampler live and answer, but play and load nothing any more."""
    import ray

    def stop(sampler):
        sampler._loop._loop.call_soon_threadsafe(time.sleep, 10_000)

    ray.get(samplers.actors[place].__ray_call__.remote(stop))


def test_a_sampler_that_hangs_is_replaced_at_the_next_hand_over(trainers, model):
    hanging = []

    def ask(actors, limit_s):
        answers = ask_actors(actors, limit_s)
        live = {place: Progress(next(steps)) for place in answers if place not in hanging}
        return answers | live  # a live one gets further however slow this machine is

    steps = count()
    watch = SilenceWatch(silent_s=1.0, ask_s=0.2, ask=ask)
    transfer = BucketTransfer(trainers.source, adapters=False, watch=watch)
    samplers = RaySamplers(SPEC, model, reserved(samplers=2), "cpu", transfer).open()
    try:
        assert samplers.watch.silent_s == playing_s(SPEC)
        samplers.hand_over(1)
        before = pids(samplers)
        hanging.append(1)
        hang(samplers, 1)
        samplers.hand_over(2)
        hanging.clear()
        after = pids(samplers)
        assert (after[0] == before[0], after[1] == before[1]) == (True, False)
        samplers.watch = watch
        hanging.append(0)
        hang(samplers, 0)
        samplers.sleep()  # ends it
        played = samplers.play([jobs(2), jobs(2)], RULES, 3)
        assert [len(share) for share in played] == [2, 2]
        assert pids(samplers)[1] == after[1]
    finally:
        samplers.close()


def test_a_group_goes_to_the_sampler_that_has_completed_its_groups(trainers, model):
    transfer = BrokenTransfer(trainers.source)
    samplers = RaySamplers(SPEC, model, reserved(samplers=2), "cpu", transfer).open()
    groups = RayGroupSamplers(samplers)
    try:
        samplers.hand_over(1)
        groups.start(0, jobs(60), RULES)
        groups.start(1, jobs(1), RULES)
        groups.start(2, jobs(8), RULES)
        assert groups.loads == [60, 9]
        completed = {}
        while len(completed) < 3:
            completed.update(groups.poll())
            assert sum(groups.loads) == 69 - sum(len(group) for group in completed.values())
            time.sleep(0.01)
        groups.start(3, jobs(2), RULES)
        groups.start(4, jobs(1), RULES)
        assert groups.loads == [2, 1]
    finally:
        samplers.close()


def test_a_sampler_refuses_to_play_weights_that_it_never_got(trainers, model):
    transfer = BucketTransfer(trainers.source, adapters=False)
    samplers = RaySamplers(SPEC, model, reserved(samplers=1), "cpu", transfer).open()
    (actor,) = samplers.actors
    try:
        with pytest.raises(WorkersLostError, match=r"of version 0 are needed, .* of version -1"):
            results([actor.play.remote(jobs(1), RULES, 0)])
        transfer.send([actor], 3)
        with pytest.raises(WorkersLostError, match=r"of version 4 are needed, .* of version 3"):
            results([actor.play.remote(jobs(1), RULES, 4)])
        with pytest.raises(WorkersLostError, match=r"of version 4 are needed, .* of version 3"):
            results([actor.play_group.remote(jobs(1), RULES, 4)])
        ((before, _),) = results([actor.progress.remote()])
        (random,) = results([actor.play.remote(jobs(1), GREEDY, -1)])
        ((after, _),) = results([actor.progress.remote()])
        assert after - before == sum(len(episode.turns) for episode in random) > 0
    finally:
        samplers.close()


def test_the_driver_gets_what_the_environments_of_a_sampler_log(ray, model):
    def warn(_):
        log = logging.getLogger("agentrl_envs.calls.watch")
        log.info("of no interest")
        log.warning("environment %s: reset has been running for 60 s", "lights")

    samplers = RaySamplers(SPEC, model, reserved(samplers=1), "cpu", None).open()
    (actor,) = samplers.actors
    try:
        ray.get(actor.__ray_call__.remote(warn))
        first, second = (ray.get(actor.progress.remote()) for _ in range(2))
        assert first.notes == ("environment lights: reset has been running for 60 s",)
        assert second.notes == ()
    finally:
        samplers.close()


def test_samplers_are_given_the_engine_that_the_manifest_describes():
    given = {"maxBatch": 7, "memoryShare": 0.5, "gpus": 2, "tensorParallel": 2, "eager": True}
    rollout = {"engine": "vllm"}
    ours = sampler_options(
        spec(rollout=rollout, compute={"ray": "embedded", "samplers": given}), "cuda", trains=True
    )
    assert (ours.replies, ours.memory_share, ours.tensor_parallel) == (7, 0.5, 2)
    assert (ours.eager, ours.sleeps) == (True, False)
    default = sampler_options(
        spec(rollout=rollout, compute={"ray": "embedded"}), "cpu", trains=True
    )
    assert default.eager is None  # as the device needs it
