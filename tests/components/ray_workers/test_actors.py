"""Trainers and samplers as Ray actors, on an embedded Ray with gloo.

All tests share one Ray and the same ranks, because each process takes seconds to start."""

import os
import signal

import psutil
import pytest
import torch
from corridor_jobs import jobs
from corridor_rules import RULES
from corridor_server import served
from learner_bench import Bench, spec
from ray_bench import (
    connected,
    gradients,
    model_folder,
    objective,
    open_trainers,
    pid,
    reserved,
    sessions,
    skewed_examples,
    train,
)
from safetensors.torch import save_file
from spawned_processes import spawned

from agentrl_components.errors import (
    ModelError,
    SpecError,
    StoreError,
    WorkersLostError,
)
from agentrl_components.ray_workers.actors import Actors
from agentrl_components.ray_workers.calls.results import results
from agentrl_components.ray_workers.cluster import connect
from agentrl_components.ray_workers.group_samplers import RayGroupSamplers
from agentrl_components.ray_workers.hand_over.buckets import (
    BUCKET_BYTES,
    BUCKETS_AT_ONCE,
    BucketTransfer,
)
from agentrl_components.ray_workers.model_folder import ModelFolder
from agentrl_components.ray_workers.samplers import RaySamplers

pytest.importorskip("ray")

FIELDS = {
    "model": {
        "source": "tiny",
        "context": 64,
        "tiny": {"layers": 2, "hidden": 24, "heads": 3, "intermediate": 40},
    },
    "update": {"learningRate": 1e-3, "miniBatch": 4, "microBatchTokens": 90},
}
SPEC = spec(**FIELDS)
NEOX = """{"model_type": "gpt_neox", "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 3,
"num_attention_heads": 4, "intermediate_size": 64}"""
"""An architecture that the built-in decoder does not have."""


@pytest.fixture(scope="module")
def ray():
    with connected(trainers=6, samplers=2) as ray:
        yield ray


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return model_folder(SPEC, tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def two(ray, model):
    trainers = open_trainers(SPEC, model, 2)
    yield trainers
    trainers.close()


@pytest.fixture(scope="module")
def four(ray, model):
    trainers = open_trainers(SPEC, model, 4)
    yield trainers
    trainers.close()


@pytest.fixture(scope="module")
def start(two):
    """The state of the trainers before any update."""
    return two.state()


@pytest.fixture
def plain(model):
    """Trainers in this process, without shards."""
    with Bench(model.path, **FIELDS) as bench:
        yield bench


@pytest.fixture
def sharded(request, start):
    trainers = request.getfixturevalue(request.param)
    trainers.restore(start)
    return trainers


both = pytest.mark.parametrize(
    "sharded", ["two", pytest.param("four", marks=pytest.mark.slow)], indirect=True
)


def differences(found, expected):
    """The largest difference of each tensor, as a share of its largest element."""
    return [float((found[n] - expected[n]).abs().max() / expected[n].abs().max()) for n in expected]


@both
def test_gradients_are_those_of_one_process(sharded, plain):
    examples = skewed_examples(0)
    asked = objective(examples, SPEC.algorithm)
    sums = plain.trainers.differentiate(asked, examples)
    found = sharded.differentiate(asked, examples)
    assert found == pytest.approx(sums, rel=1e-5)
    lanes = plain.worker.policy.shared.lanes
    expected = plain.worker.policy.split(lanes[0] + lanes[1])
    assert max(differences(gradients(sharded), expected)) < 1e-5


@both
def test_gradient_norms_of_20_updates_are_those_of_one_process(sharded, plain):
    assert train(sharded, SPEC, 20) == pytest.approx(train(plain.trainers, SPEC, 20), rel=1e-5)


@both
def test_the_same_updates_give_the_same_bits(sharded, start):
    first, weights = train(sharded, SPEC, 3), dict(sharded.weights())
    sharded.restore(start)
    assert train(sharded, SPEC, 3) == first
    again = dict(sharded.weights())
    assert all(torch.equal(again[name], tensor) for name, tensor in weights.items())


@both
def test_logprobs_come_in_the_order_of_the_examples(sharded, plain):
    examples = skewed_examples(7)
    found = sharded.logprobs(examples)
    for one, other in zip(found, plain.trainers.logprobs(examples), strict=True):
        assert one == pytest.approx(other, abs=1e-5)


@pytest.mark.slow
def test_a_checkpoint_of_four_ranks_goes_on_with_two(two, four, start, tmp_path):
    four.restore(start)
    train(four, SPEC, 2)
    files, weights = four.state(tmp_path), dict(four.weights())
    two.restore(files)
    assert all(torch.equal(dict(two.weights())[name], tensor) for name, tensor in weights.items())
    assert train(two, SPEC, 2, seed=5) == pytest.approx(train(four, SPEC, 2, seed=5), rel=1e-6)


@pytest.mark.slow
def test_a_checkpoint_of_four_ranks_goes_on_with_one_and_opens_in_transformers(
    four, start, model, tmp_path
):
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM

    four.restore(start)
    train(four, SPEC, 2)
    files, weights = four.state(tmp_path), dict(four.weights())
    one = open_trainers(SPEC, model, 1)
    try:
        one.restore(files)
        assert all(
            torch.equal(dict(one.weights())[name], tensor) for name, tensor in weights.items()
        )
        expected = train(four, SPEC, 2, seed=5)
        assert train(one, SPEC, 2, seed=5) == pytest.approx(expected, rel=1e-6)
    finally:
        one.close()
    (tmp_path / "config.json").write_bytes((model.path / "config.json").read_bytes())
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    opened = AutoModelForCausalLM.from_pretrained(tmp_path).state_dict()
    assert all(torch.equal(opened[name], tensor) for name, tensor in weights.items())


def test_equal_states_give_equal_files(two, start):
    two.restore(start)
    assert two.state() == start


def test_a_checkpoint_from_without_ray_is_refused(two, plain):
    with pytest.raises(StoreError, match=r"without spec\.compute\.ray"):
        two.restore(plain.trainers.state())


def open_samplers(model, source):
    transfer = BucketTransfer(source, adapters=False)
    return RaySamplers(SPEC, model, reserved(samplers=2), "cpu", transfer).open()


class CountedBuckets:
    """A source of small buckets, and the bytes of those that exist at the same time."""

    def __init__(self, source, limit):
        self.source, self.limit = source, limit
        self.sizes = []
        self.most = 0

    def buckets(self, *, adapters):
        import ray

        worker = ray._private.worker.global_worker.core_worker
        sizes = {}
        for reference in self.source.buckets(adapters=adapters, limit=self.limit):
            sizes[reference.hex()] = ray.get(reference).content.nbytes
            alive = worker.get_all_reference_counts().keys() & sizes.keys()
            self.most = max(self.most, sum(sizes[number] for number in alive))
            yield reference
        self.sizes = list(sizes.values())


def test_samplers_play_the_trainers_weights_and_a_dead_one_is_replaced(two, start, model, plain):
    two.restore(start)
    train(two, SPEC, 2)
    plain.worker.policy.shared.vector.copy_(
        torch.cat([dict(two.weights())[n].flatten() for n, _ in plain.worker.policy._named])
    )
    shares = [jobs(4)[:2], jobs(4)[2:]]
    expected = [plain.worker.play(share, RULES, 1) for share in shares]
    samplers = RaySamplers(
        SPEC, model, reserved(samplers=2), "cpu", BucketTransfer(two.source, adapters=False)
    ).open()
    try:
        assert_equal(samplers.play(shares, RULES, 1), expected)
        (hand_over,) = samplers.handed_over
        assert hand_over.bytes == sum(t.nbytes for t in dict(two.weights()).values())
        first, second = samplers.actors
        os.kill(pid(second), signal.SIGKILL)
        assert_equal(samplers.play(shares, RULES, 1), expected)
        assert samplers.actors[0] is first
        assert samplers.actors[1] is not second
    finally:
        samplers.close()


def test_a_sampler_with_environments_in_processes_plays_the_same_and_leaves_none(ray, model, plain):
    environment = SPEC.environments[0].model_copy(update={"replicas": 0, "workers": 1})
    manifest = SPEC.model_copy(update={"environments": (environment,)})
    samplers = RaySamplers(manifest, model, reserved(), "cpu", None).open()
    try:
        assert_equal(samplers.play([jobs(4)], RULES, 0), [plain.worker.play(jobs(4), RULES, 0)])
        processes = spawned(pid(samplers.actors[0]))
        assert len(processes) == 1
    finally:
        samplers.close()
    assert psutil.wait_procs(processes, timeout=60)[1] == []


def test_samplers_leave_no_sessions_on_an_environment_server(ray, model, plain):
    with served() as url:
        environment = SPEC.environments[0].model_copy(update={"builtin": None, "url": url})
        manifest = SPEC.model_copy(update={"environments": (environment,)})
        samplers = RaySamplers(manifest, model, reserved(), "cpu", None).open()
        try:
            assert_equal(samplers.play([jobs(4)], RULES, 0), [plain.worker.play(jobs(4), RULES, 0)])
            assert sessions(url) == 0
        finally:
            samplers.close()


def test_groups_go_on_over_a_hand_over_and_those_of_a_dead_sampler_are_played_again(
    two, start, model
):
    two.restore(start)
    samplers = RaySamplers(
        SPEC, model, reserved(samplers=2), "cpu", BucketTransfer(two.source, adapters=False)
    ).open()
    try:
        samplers.hand_over(1)
        groups = RayGroupSamplers(samplers)
        for number, job in enumerate(jobs(4)):
            groups.start(number, [job], RULES)
        first, second = samplers.actors
        os.kill(pid(first), signal.SIGKILL)
        ended = {}
        while len(ended) < 4:
            ended.update(groups.wait())
        assert samplers.actors[0] is not first
        assert samplers.actors[1] is second
        expected = samplers.play([jobs(4)], RULES, 1)[0]
        assert_equal([[ended[number][0] for number in range(4)]], [expected])
        train(two, SPEC, 1)
        samplers.hand_over(2)
        groups.start(4, jobs(1), RULES)
        ((number, (episode,)),) = groups.wait()
        assert (number, set(episode.versions.tolist())) == (4, {2})
        groups.start(5, jobs(1), RULES)
        groups.cancel()
        assert groups.wait() == []
        first, _ = samplers.take_loads()
        assert first.prompt_tokens > first.cached_tokens > 0
        assert 0 < first.busy_s < first.seconds
    finally:
        samplers.close()


def test_no_more_than_three_buckets_of_a_hand_over_exist_at_the_same_time(two, start, model):
    two.restore(start)
    source = CountedBuckets(two.source, limit=8_000)
    samplers = open_samplers(model, source)
    try:
        samplers.play([jobs(1)], RULES, 1)
    finally:
        samplers.close()
    (hand_over,) = samplers.handed_over
    # Two that the samplers load, and the next one.
    assert len(source.sizes) > 6
    assert hand_over.bytes == sum(source.sizes)
    assert source.most <= 3 * 8_000
    assert source.most <= max(
        sum(source.sizes[first : first + 3]) for first in range(len(source.sizes) - 2)
    )


def test_the_store_of_an_embedded_ray_has_room_for_the_buckets_of_a_hand_over(ray):
    assert ray.cluster_resources()["object_store_memory"] > BUCKETS_AT_ONCE * BUCKET_BYTES


def test_a_group_goes_to_the_sampler_with_the_fewest_episodes_and_stays_there(two, start, model):
    two.restore(start)
    samplers = open_samplers(model, two.source)
    try:
        samplers.hand_over(1)
        groups, loads = RayGroupSamplers(samplers), []
        for number, count in enumerate((3, 1, 1, 2, 1)):
            groups.start(number, jobs(count), RULES)
            loads.append(groups.loads)
        assert loads == [[3, 0], [3, 1], [3, 2], [3, 4], [4, 4]]
        ended = {}
        while len(ended) < 5:
            ended.update(groups.wait())
        assert groups.loads == [0, 0]
        # Every turn but the first finds the turn before in the cache of its sampler, but for the
        # last sampled token, which has not been read yet.
        places = [[0, 4], [1, 2, 3]]
        for load, numbers in zip(samplers.take_loads(), places, strict=True):
            episodes = [episode for number in numbers for episode in ended[number]]
            asked = sum(turn.start for e in episodes for turn in e.turns)
            held = sum(turn.end - 1 for e in episodes for turn in e.turns[:-1])
            assert (load.prompt_tokens, load.cached_tokens) == (asked, held)
            assert held > 0
    finally:
        samplers.close()


def assert_equal(played, expected):
    for share, wanted in zip(played, expected, strict=True):
        for one, other in zip(share, wanted, strict=True):
            assert one.ids.tolist() == other.ids.tolist()
            assert one.logprobs.tolist() == other.logprobs.tolist()
            assert one.score == other.score


def test_an_argument_that_was_lost_with_its_node_is_reported_as_a_lost_process(ray):
    from ray.exceptions import ObjectLostError

    class Reader:
        def read(self):  # as Ray does if a bucket's node dies before the bucket is fetched
            raise ObjectLostError("0" * 56, None, "")

    actor = ray.remote(Reader).options(num_cpus=0).remote()
    with pytest.raises(WorkersLostError, match="a process of the run died"):
        results([actor.read.remote()])


def test_more_trainers_than_devices_are_refused(ray):
    with pytest.raises(SpecError, match=r"compute\.trainers\.count: .* need 2 GPUs, but Ray has 0"):
        connect("embedded", reserved(2, gpus=1))
    with pytest.raises(SpecError, match="need 51 CPUs, but Ray has 5; lower count"):
        connect("embedded", reserved(100))


def test_tensor_parallel_that_does_not_divide_a_models_heads_is_refused(model):
    split = {"ray": "embedded", "samplers": {"gpus": 2, "tensorParallel": 2}}
    field = r"spec\.compute\.samplers\.tensorParallel: 2 does not divide the 3 heads"
    with pytest.raises(ModelError, match=field):
        Actors(spec(**FIELDS, compute=split), model, trains=True, note=print)


def test_heads_of_a_model_of_transformers_are_those_of_its_config(tmp_path):
    (tmp_path / "config.json").write_text(NEOX)
    split = {"ray": "embedded", "samplers": {"gpus": 3, "tensorParallel": 3}}
    foreign = ModelFolder(path=tmp_path, vocabulary=())
    with pytest.raises(
        ModelError, match=r"3 does not divide the 4 heads of .*; set it to one of 1, 2"
    ):
        Actors(spec(**FIELDS, compute=split), foreign, trains=True, note=print)


def test_a_hand_over_of_changes_to_the_mamba_layers_of_vllm_is_refused(tmp_path):
    """Regression: the samplers had wrong weights. Entries of A that had not changed, which are
    -exp(A_log), became -exp(-exp(A_log))."""
    save_file({"model.layers.0.mamba.A_log": torch.zeros(2)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"model_type": "falcon_h1"}')
    changes = {"ray": "embedded", "samplers": {"gpus": 1}, "sparseHandOver": True}
    run = spec(
        model={"source": "hf://tiiuae/Falcon-H1-0.5B-Base", "dtype": "bfloat16"},
        rollout={"engine": "vllm"},
        compute=changes,
    )
    with pytest.raises(ModelError) as refused:
        Actors(run, ModelFolder(path=tmp_path, vocabulary=()), trains=True, note=print)
    assert str(refused.value) == (
        "spec.compute.sparseHandOver: vLLM cannot write changes into the recurrent layers (Mamba, "
        "Gated DeltaNet) of hf://tiiuae/Falcon-H1-0.5B-Base; set it to false"
    )


def test_a_trainer_that_was_killed_is_reported(two):
    os.kill(pid(two._actors[1]), signal.SIGKILL)
    with pytest.raises(WorkersLostError, match="a process of the run died"):
        train(two, SPEC, 1)
