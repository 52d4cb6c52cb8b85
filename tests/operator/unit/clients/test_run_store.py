import asyncio
import threading
import time

import pytest
from virtual_time import now, virtual_time

from agentrl_components.errors import StoreError
from agentrl_components.schedule.record import Decision
from agentrl_components.spec import Storage
from agentrl_components.storage.open import MemoryStore
from agentrl_components.storage.records import HeldoutSummary, RunState
from agentrl_operator.clients.run_store import RunStoreOpener, RunStores
from agentrl_operator.errors import RunStoreError
from agentrl_pipelines.platform.config import Platform

STORAGE = Storage(url="s3://agentrl/kubeflow/demo")


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def stores(store):
    stores = RunStores(lambda storage: store, threads=2)
    yield stores
    stores.close()


async def test_a_run_without_records_has_no_state(stores):
    assert await stores.read_state(STORAGE) is None
    assert await stores.read_decision(STORAGE, 0) is None
    assert (await stores.read_mlflow_run(STORAGE)).run_id is None


async def test_state_and_decision_are_read_and_unknown_fields_ignored(stores, store):
    store.replace(
        "state.json",
        b'{"status": "failed", "message": "no", "reason": "ModelError", "final": true,'
        b' "phase": 1, "max_turns": 6, "iteration": 3, "best": 2, "wall_seconds": {"train": 1},'
        b' "heldout": {"name": "after", "success": 0.5, "low": 0.4, "high": 0.6, "n": 40}}',
    )
    store.replace(
        "phases/01/decision.json",
        b'{"action": "advance", "phase": 2, "max_turns": 9, "reason": "over", "alarms": []}',
    )

    assert await stores.read_state(STORAGE) == RunState(
        status="failed",
        message="no",
        reason="ModelError",
        final=True,
        phase=1,
        max_turns=6,
        iteration=3,
        best=2,
        wall_seconds={"train": 1},
        heldout=HeldoutSummary(name="after", success=0.5, low=0.4, high=0.6, n=40),
    )
    assert await stores.read_decision(STORAGE, 1) == Decision(
        action="advance", phase=2, max_turns=9, reason="over"
    )


async def test_a_damaged_record_is_an_error_with_its_key(stores, store):
    store.replace("state.json", b"{")

    with pytest.raises(RunStoreError, match=r"state\.json: in memory:: damaged"):
        await stores.read_state(STORAGE)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("environment_seconds", "Infinity"),
        ("device_seconds", "1e999"),
        ("device_seconds", "NaN"),
        ("tokens", f"{2**63}"),
        ("best", "-1"),
        ("iteration", f"1{'0' * 400}"),
    ],
)
async def test_a_number_that_a_status_cannot_hold_is_a_damaged_record(stores, store, field, value):
    """Regression: the operator failed on such a number at every look at the run."""
    store.replace("state.json", f'{{"{field}": {value}}}'.encode())

    with pytest.raises(RunStoreError, match=rf"state\.json: in memory:: damaged: {field}: Input"):
        await stores.read_state(STORAGE)


async def test_a_record_that_somebody_made_huge_is_an_error_and_not_read(stores, store):
    huge = b" " * (1 << 20) + b"{}"
    for key in ("state.json", "phases/00/decision.json", "tracker.json"):
        store.replace(key, huge)
    reads = (
        stores.read_state(STORAGE),
        stores.read_decision(STORAGE, 0),
        stores.read_mlflow_run(STORAGE),
    )
    for read in reads:
        with pytest.raises(RunStoreError, match="damaged: longer than 1048576 bytes"):
            await read


async def test_the_mlflow_run_is_recorded_for_the_stages(stores, store):
    await stores.write_mlflow_run(STORAGE, "m1", "http://mlflow.test")

    found = await stores.read_mlflow_run(STORAGE)
    assert (found.run_id, found.uri) == ("m1", "http://mlflow.test")


async def test_deleting_run_data_leaves_nothing(stores, store):
    for number in range(3):
        store.put(f"checkpoints/{number:06d}/model", b"x")

    assert await stores.delete_run_data(STORAGE)
    assert store.objects == {}


async def test_objects_of_others_are_not_deleted(stores, store):
    others = ("kubeflow/other-6a1b2c3d/run.json", "notes.txt", "checkpoints.txt")
    for key in (*others, "run.json", "state.json", "phases/00/decision.json", "heartbeats/play"):
        store.put(key, b"x")

    assert await stores.delete_run_data(STORAGE)
    assert set(store.objects) == set(others)


class SlowToDelete(MemoryStore):
    """A store that deletes an object when it is allowed to, each after `pause_s`."""

    def __init__(self, names, pause_s=0.0):
        super().__init__()
        self.allowed, self.deleted, self.pause_s = threading.Event(), [], pause_s
        for name in names:
            self.put(f"checkpoints/{name}", b"x")

    def delete(self, key):
        assert self.allowed.wait(20)
        time.sleep(self.pause_s)
        self.deleted.append(key)
        super().delete(key)


async def test_other_runs_are_read_while_data_is_deleted_and_no_object_is_deleted_twice():
    runs = {f"s3://agentrl/run-{number}": SlowToDelete("abc") for number in range(3)}
    busy = [Storage(url=url) for url in runs]
    other = MemoryStore()
    stores = RunStores(lambda storage: runs.get(storage.url, other), threads=2, timeout_s=10.0)
    for _ in range(2):  # the operator asks again while the first deletions have not ended
        first = [stores.delete_run_data(one) for one in busy]
        *ended, state = await asyncio.gather(*first, stores.read_state(STORAGE))
        assert (ended, state) == ([False] * 3, None)
    for store in runs.values():
        store.allowed.set()
    while not all(await asyncio.gather(*map(stores.delete_run_data, busy))):
        pass
    stores.close()

    for store in runs.values():
        assert sorted(store.deleted) == ["checkpoints/a", "checkpoints/b", "checkpoints/c"]


async def delete_all(stores, storage):
    while not await stores.delete_run_data(storage):
        pass


async def test_a_deletion_that_takes_long_stops_in_time_and_is_continued_by_the_next_call():
    store = SlowToDelete("abc", pause_s=0.02)
    store.allowed.set()
    stores = RunStores(lambda storage: store, timeout_s=0.02)
    await delete_all(stores, STORAGE)
    stores.close()

    assert store.objects == {}
    assert sorted(store.deleted) == ["checkpoints/a", "checkpoints/b", "checkpoints/c"]


class KeepsOne(MemoryStore):
    """A store that forgets to delete one of many keys the first time."""

    forgets = True

    def delete_many(self, keys):
        super().delete_many(keys[1:] if self.forgets else keys)
        self.forgets = False


async def test_data_is_deleted_when_the_store_lists_none_of_it():
    store = KeepsOne()
    for name in "abc":
        store.put(f"checkpoints/{name}", b"x")
    stores = RunStores(lambda storage: store)
    assert not await stores.delete_run_data(STORAGE)
    assert list(store.objects) == ["checkpoints/a"]
    assert await stores.delete_run_data(STORAGE)
    stores.close()
    assert store.objects == {}


async def test_a_deletion_that_fails_when_nobody_waits_is_an_error_of_the_next_call():
    failed = threading.Event()

    def refuses(storage):
        assert failed.wait(20)
        raise StoreError("a: in s3://agentrl: AccessDenied: no")

    stores = RunStores(refuses, timeout_s=0.02)
    assert not await stores.delete_run_data(STORAGE)
    failed.set()
    with pytest.raises(RunStoreError, match="AccessDenied"):
        await delete_all(stores, STORAGE)
    stores.close()


async def test_a_store_that_refuses_a_deletion_is_an_error():
    def refuses(storage):
        raise StoreError("storage: AWS_ACCESS_KEY_ID not set in the environment")

    stores = RunStores(refuses)
    for _ in range(2):
        with pytest.raises(RunStoreError, match="AWS_ACCESS_KEY_ID not set"):
            await stores.delete_run_data(STORAGE)
    stores.close()


async def test_a_store_that_refuses_or_hangs_is_an_error_in_time():
    def refuses(storage):
        raise StoreError("storage: AWS_ACCESS_KEY_ID not set in the environment")

    refusing = RunStores(refuses, threads=1)
    with pytest.raises(RunStoreError, match="AWS_ACCESS_KEY_ID not set"):
        await refusing.read_state(STORAGE)
    refusing.close()
    over = threading.Event()
    hanging = RunStores(lambda storage: over.wait(), threads=1, timeout_s=0.05)
    with pytest.raises(RunStoreError, match=r"no response in 0\.05 s"):
        await hanging.read_state(STORAGE)
    over.set()
    hanging.close()


def test_a_store_that_never_answers_is_not_asked_by_every_run():
    over, opened, healthy = threading.Event(), [], MemoryStore()

    def open_store(storage):
        if storage.endpoint is not None:
            opened.append(storage)
            over.wait()
        return healthy

    silent = Storage(url="s3://agentrl/a", endpoint="http://minio.test")
    stores = RunStores(open_store)

    @virtual_time
    async def ask_the_silent_one():
        for _ in range(3):
            with pytest.raises(RunStoreError, match="no response in 20 s; check the object store"):
                await stores.read_state(silent)
        for _ in range(50):
            with pytest.raises(RunStoreError, match=r"s3://agentrl/a: not sent, because the last"):
                await stores.read_state(silent)
        assert now() == 60

    ask_the_silent_one()
    assert len(opened) == 3
    assert asyncio.run(stores.read_state(STORAGE)) is None
    over.set()
    stores.close()


PLATFORM = Platform(
    storage={
        "url": "s3://agentrl",
        "endpoint": "http://minio.test:9000",
        "others": [
            {
                "endpoint": "https://s3.team.test",
                "secret": {"name": "team-keys"},
                "accessKeyEnv": "TEAM_KEY",
                "secretKeyEnv": "TEAM_SECRET",
            }
        ],
    }
)


@pytest.fixture
def opener(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "TEAM_KEY", "DATABASE_PASSWORD"):
        monkeypatch.setenv(name, f"value-of-{name}")
    for name in ("AWS_SECRET_ACCESS_KEY", "TEAM_SECRET"):
        monkeypatch.setenv(name, f"value-of-{name}")
    return RunStoreOpener(PLATFORM)


def keys_of(store):
    found = store._client._provider.retrieve()
    return found.access_key, found.secret_key


def test_runs_in_the_same_s3_service_share_its_connections(opener):
    one, other, elsewhere = (
        opener.open(Storage(url=url, endpoint=endpoint))
        for url, endpoint in (
            ("s3://agentrl/kubeflow/one-6a1b2c3d", "http://minio.test:9000"),
            ("s3://agentrl/kubeflow/other-6a1b2c3d/", "http://minio.test:9000"),
            ("s3://agentrl/kubeflow/one-6a1b2c3d", "s3.team.test"),
        )
    )

    assert (one.url, other.url) == (
        "s3://agentrl/kubeflow/one-6a1b2c3d",
        "s3://agentrl/kubeflow/other-6a1b2c3d",
    )
    assert one._client is other._client
    assert one._client is not elsewhere._client


def test_a_run_cannot_choose_which_variables_of_the_operator_are_its_credentials(opener):
    store = opener.open(
        Storage(
            url="s3://agentrl/team/a-6a1b2c3d",
            endpoint="http://minio.test:9000",
            access_key_env="DATABASE_PASSWORD",
            secret_key_env="TEAM_SECRET",
        )
    )

    assert keys_of(store) == ("value-of-AWS_ACCESS_KEY_ID", "value-of-AWS_SECRET_ACCESS_KEY")


@pytest.mark.parametrize("prefix", ["", "/", "/agentrl/team", "/team/a-6a1b2c3d#", "/a-6a1b2c3d"])
async def test_the_operator_opens_no_store_that_is_not_a_single_run(opener, prefix):
    url = f"s3://agentrl{prefix}"
    storage = Storage.model_construct(url=url, endpoint="http://minio.test:9000", region=None)
    with pytest.raises(StoreError, match=r"does not end in NAMESPACE/NAME-UID"):
        opener.open(storage)


@pytest.mark.parametrize("tail", ["#", "?", "?x"])
def test_a_run_that_an_earlier_crd_let_end_in_a_fragment_is_not_opened_as_another_run(opener, tail):
    """Regression: the appended prefix was taken for a part of the fragment, so this was the data of
    the run `victim`."""
    store = opener.open(
        Storage.model_construct(
            url=f"s3://agentrl/team-b/victim-6a1b2c3d{tail}/team-a/mine-00000000",
            endpoint="http://minio.test:9000",
            region=None,
        )
    )
    assert store._prefix == f"team-b/victim-6a1b2c3d{tail}/team-a/mine-00000000/"


def test_a_listed_store_gets_its_own_credentials(opener):
    store = opener.open(Storage(url="s3://models/team/a-6a1b2c3d", endpoint="https://s3.team.test"))

    assert keys_of(store) == ("value-of-TEAM_KEY", "value-of-TEAM_SECRET")


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://evil.test",
        "http://minio.test:9001",
        "https://minio.test:9000",
        "minio.test:9000",
        "http://minio.test:9000@evil.test",
        "http://s3.team.test",
        "http://minio.test:90000",
        "http://[::1:9000",
    ],
)
async def test_no_credentials_are_sent_to_a_store_that_the_platform_does_not_list(opener, endpoint):
    storage = Storage.model_construct(
        url="s3://agentrl/team/a-6a1b2c3d", endpoint=endpoint, region=None
    )
    stores = RunStores(opener.open)
    with pytest.raises(RunStoreError, match=r"is not an object store of this platform"):
        await stores.read_state(storage)
    stores.close()


async def test_no_region_makes_another_host_of_aws(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    opener = RunStoreOpener(Platform(storage={"endpoint": None, "region": "eu-west-1"}))
    assert opener.open(Storage(url="s3://bucket/team/a-6a1b2c3d", region="us-east-2"))
    with pytest.raises(StoreError, match="not an object store of this platform"):
        opener.open(Storage(url="s3://bucket/team/a-6a1b2c3d", region="x.evil.test/"))


def test_a_store_without_a_secret_is_opened_by_the_identity_of_the_operator(monkeypatch, tmp_path):
    opener = RunStoreOpener(
        Platform(storage={"endpoint": None, "region": "eu-west-1", "secret": None})
    )
    with pytest.raises(StoreError, match="give the service account of the pod a role"):
        opener.open(Storage(url="s3://bucket/team/a-6a1b2c3d", region="eu-west-1"))
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    assert (
        opener.open(Storage(url="s3://bucket/team/a-6a1b2c3d", region="eu-west-1")).url
        == "s3://bucket/team/a-6a1b2c3d"
    )
