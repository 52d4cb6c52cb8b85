"""Checkpoints whose files ranks write to a real MinIO and read from it."""

import uuid

import minio_service
import pytest
import torch
from learner_bench import spec
from ray_bench import (
    connected,
    model_folder,
    open_trainers,
    skewed_examples,
    train,
)
from safetensors.torch import load_file

from agentrl_components.errors import StoreError
from agentrl_components.ray_workers.checkpoints.rank_store import RankStore
from agentrl_components.ray_workers.checkpoints.store_shards import StoreShards, own_files
from agentrl_components.run import saved_state
from agentrl_components.run.saved_state import TrainingState
from agentrl_components.schedule.record import Decision, IterationRecord
from agentrl_components.storage import checkpoint, keys
from agentrl_components.storage.open import DirectoryStore, open_store
from agentrl_components.update.learner import Learner

pytest.importorskip("ray")

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": minio_service.ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": minio_service.SECRET_KEY,
}
WITHOUT_KL = spec()
"""Examples of the tests have no log-probabilities of the reference policy."""
TWO_MACHINES = ("a", "b")
"""Names of machines, of which ranks fetch files each for themselves."""
SHARDS = {
    f"trainer/policy/shard-0000{rank}-model-00001-of-00001.safetensors": f"rank {rank}"
    for rank in (1, 2)
}


@pytest.fixture(scope="module")
def opened(minio_endpoint, tmp_path_factory):
    """The manifest of a run whose store is in MinIO, and its two trainers."""
    url = f"s3://{minio_service.BUCKET}/{uuid.uuid4().hex}"
    of_run = spec(
        storage={"url": url, "endpoint": minio_endpoint, "region": "us-east-1"},
        algorithm={"kl": {"coefficient": 0.1}},
    )
    folder = model_folder(of_run, tmp_path_factory.mktemp("model"))
    with pytest.MonkeyPatch.context() as environment:
        for name, value in CREDENTIALS.items():
            environment.setenv(name, value)
        with connected(trainers=2):
            trainers = open_trainers(of_run, folder, ranks=2)
            yield of_run, folder.path, trainers
            trainers.close()


@pytest.fixture
def learner(opened):
    """A learner whose ranks stand on two machines."""
    of_run, _, trainers = opened
    trainers.shards = StoreShards(trainers._actors, TWO_MACHINES)
    return Learner(of_run, trainers)


@pytest.fixture
def store(opened, tmp_path):
    of_run, _, _ = opened
    store = open_store(of_run.storage, tmp_path)
    for key in list(store.list("")):
        store.delete(key)
    return store


def after(iterations):
    """The state of a run after so many iterations."""
    decision = Decision(action="continue", phase=0, max_turns=3, reason="")
    return TrainingState(
        history=[
            IterationRecord(iteration=number, phase=0, max_turns=3, metrics={}, decision=decision)
            for number in range(iterations)
        ]
    )


def saved(store, opened, learner, iterations, tmp_path):
    """Save a checkpoint. Returns the weights in it."""
    _, folder, trainers = opened
    spool = tmp_path / f"spool-{iterations}"
    spool.mkdir()
    saved_state.save(store, folder, learner, after(iterations), spool)
    assert not (spool / "trainer").exists()
    return dict(trainers.weights())


def equal(some, others):
    return some.keys() == others.keys() and all(torch.equal(some[n], others[n]) for n in some)


def equal_columns(some, others):
    return all((a == b).all() for a, b in zip(some, others, strict=True))


def test_ranks_on_the_drivers_machine_pass_their_files_through_its_folder(opened):
    trainers = opened[2]
    assert trainers.shards is None
    assert not trainers.pass_the_driver


def test_ranks_write_their_own_files_and_go_on_from_them(opened, learner, store, tmp_path):
    trainers = opened[2]
    train(trainers, WITHOUT_KL, 2)
    weights = saved(store, opened, learner, 1, tmp_path)
    assert set(store.list("checkpoints/000001/trainer/policy/")) == {
        keys.checkpoint(1, name) for name in SHARDS
    }
    expected = train(trainers, WITHOUT_KL, 2, seed=7)
    assert not equal(dict(trainers.weights()), weights)
    found = saved_state.resume(store, learner, pytest.fail, tmp_path)
    assert found is not None
    assert len(found.history) == 1
    assert equal(dict(trainers.weights()), weights)
    assert train(trainers, WITHOUT_KL, 2, seed=7) == expected  # moments too


def test_files_of_ranks_are_in_the_manifest_and_are_verified(opened, learner, store, tmp_path):
    trainers = opened[2]
    weights = saved(store, opened, learner, 1, tmp_path)
    train(trainers, WITHOUT_KL, 1)
    saved(store, opened, learner, 2, tmp_path)
    damaged = keys.checkpoint(2, next(iter(SHARDS)))
    store.replace(damaged, store.get(damaged)[:-1])
    with pytest.raises(StoreError, match=f"^{damaged}: .*damaged"):
        saved_state.restore(store, learner, 2, tmp_path)
    told = []
    found = saved_state.resume(store, learner, told.append, tmp_path)
    assert found is not None
    assert len(found.history) == 1
    assert [message.partition(":")[0] for message in told] == [damaged]
    assert equal(dict(trainers.weights()), weights)


def test_the_weights_for_other_tools_are_not_fetched_to_resume(opened, learner, store, tmp_path):
    trainers = opened[2]
    weights = saved(store, opened, learner, 1, tmp_path)
    store.delete(keys.checkpoint(1, "model.safetensors"))
    train(trainers, WITHOUT_KL, 1)
    assert saved_state.resume(store, learner, pytest.fail, tmp_path) is not None
    assert equal(dict(trainers.weights()), weights)


def test_a_missing_file_of_a_rank_is_a_damaged_checkpoint(opened, learner, store, tmp_path):
    saved(store, opened, learner, 1, tmp_path)
    missing = keys.checkpoint(1, next(iter(SHARDS)))
    store.delete(missing)
    with pytest.raises(StoreError, match=f"^{missing}: .*damaged: missing"):
        saved_state.restore(store, learner, 1, tmp_path)


def test_an_incomplete_checkpoint_is_replaced(opened, learner, store, tmp_path):
    """That of a stage that was killed before the manifest, with other weights."""
    trainers = opened[2]
    store.put(keys.checkpoint(1, next(iter(SHARDS))), b"of another attempt")
    train(trainers, WITHOUT_KL, 1)
    weights = saved(store, opened, learner, 1, tmp_path)
    assert checkpoint.complete(store) == [1]
    train(trainers, WITHOUT_KL, 1)
    saved_state.restore(store, learner, 1, tmp_path)
    assert equal(dict(trainers.weights()), weights)


def test_the_reference_policy_is_read_from_the_store(opened, learner, store, tmp_path):
    trainers, examples = opened[2], skewed_examples(seed=3)
    saved(store, opened, learner, 0, tmp_path)
    then = trainers.logprobs(examples)
    train(trainers, WITHOUT_KL, 2)
    trainers.set_start()
    now = trainers.logprobs(examples)
    assert equal_columns(trainers.logprobs(examples, reference=True), now)
    saved_state.restore_reference(store, learner, 0, tmp_path)
    assert equal_columns(trainers.logprobs(examples, reference=True), then)
    assert equal_columns(trainers.logprobs(examples), now)
    assert not equal_columns(now, then)


def test_a_checkpoint_written_through_the_driver_is_read_from_the_store(
    opened, learner, store, tmp_path
):
    """As when a run goes on with trainers on more machines."""
    trainers = opened[2]
    access, trainers.shards = trainers.shards, None
    spool = tmp_path / "spool"
    spool.mkdir()
    saved_state.save(store, opened[1], learner, after(1), spool)
    weights = dict(trainers.weights())
    trainers.shards = access
    train(trainers, WITHOUT_KL, 1)
    saved_state.restore(store, learner, 1, tmp_path)
    assert equal(dict(trainers.weights()), weights)


def test_as_many_ranks_as_wrote_fetch_their_own_tensors_alone(opened, learner, store, tmp_path):
    saved(store, opened, learner, 1, tmp_path)
    names = {name.removeprefix("trainer/") for name in SHARDS}
    found = checkpoint.load(store, 1, tmp_path, learner.trainers.shards.covers)
    files = {name.removeprefix("trainer/"): found.left[name] for name in SHARDS}
    first, second = sorted(names)
    rank = RankStore(opened[0].storage)
    folder = rank.fetch(files, [first])
    sizes = {name: (folder / name).stat() for name in names}
    assert {name: stat.st_size for name, stat in sizes.items()} == {
        name: stored.digest.size for name, stored in files.items()
    }
    tensors = {name: load_file(folder / name) for name in names}
    weight = "weight.model.embed_tokens.weight"
    assert tensors[first][weight].count_nonzero() > 0
    assert tensors[second][weight].count_nonzero() == 0
    rank.drop()
    assert not folder.exists()


def test_files_of_another_number_of_ranks_are_needed_by_all():
    files = [f"{model}/shard-0000{n}-x.safetensors" for model in "pc" for n in (1, 2)]
    assert own_files(files, 2) == [[files[0], files[2]], [files[1], files[3]]]
    assert own_files(files, 1) is None
    assert own_files(files, 3) is None
    assert own_files(files[:3], 2) is None
    assert own_files(["p/model-00001-of-00002.safetensors"], 1) is None


def test_a_file_without_a_header_is_damaged(opened, learner, store, tmp_path):
    saved(store, opened, learner, 1, tmp_path)
    for name in SHARDS:  # what one rank reads whole, the other reads the header of
        store.replace(keys.checkpoint(1, name), b"12345678 is no header")
    with pytest.raises(StoreError, match="damaged"):
        saved_state.restore(store, learner, 1, tmp_path)


def test_a_folder_of_one_machine_is_no_store_for_ranks_on_others(tmp_path):
    of_run = spec(storage={"url": f"file://{tmp_path}"})
    assert isinstance(open_store(of_run.storage, tmp_path), DirectoryStore)
    assert not RankStore(of_run.storage).opens
    assert not RankStore(spec().storage).opens


def test_without_credentials_ranks_do_not_open_the_store():
    storage = spec(storage={"url": "s3://runs/one", "accessKeyEnv": "NOT_SET"}).storage
    assert not RankStore(storage).opens
