"""Saving, loading and pruning checkpoints; damaged and incomplete ones are detected."""

import json
from pathlib import Path
from threading import Event

import pytest

from agentrl_components.errors import StoreError
from agentrl_components.storage import checkpoint, keys
from agentrl_components.storage import files as stored_files
from agentrl_components.storage.checkpoint import Checkpoint
from agentrl_components.storage.files import StoredFile
from agentrl_components.storage.open import DirectoryStore, MemoryStore

FILES = {"config.json": b"{}", "model.safetensors": b"weights", "trainer/critic.safetensors": b"c"}


def checkpoint_at(iteration: int, **progress: object) -> Checkpoint:
    """A checkpoint whose weights name the iteration."""
    return Checkpoint(
        iteration=iteration,
        files={**FILES, "model.safetensors": f"weights {iteration}".encode()},
        progress=progress or {"cursor": iteration, "history": [0.25, 0.5]},
    )


def test_a_saved_checkpoint_is_loaded_unchanged() -> None:
    store = MemoryStore()
    checkpoint.save(store, checkpoint_at(7))
    assert checkpoint.load(store, 7) == checkpoint_at(7)
    assert checkpoint.latest(store, pytest.fail) == checkpoint_at(7)


def test_the_manifest_is_written_last_and_has_the_size_and_hash_of_every_file() -> None:
    store = MemoryStore()
    checkpoint.save(store, checkpoint_at(7))
    assert list(store.objects)[-1] == "checkpoints/000007/manifest.json"
    manifest = json.loads(store.get("checkpoints/000007/manifest.json"))
    assert manifest["iteration"] == 7
    assert sorted(manifest["files"]) == [
        "config.json",
        "model.safetensors",
        "trainer/critic.safetensors",
        "trainer/progress.json",
    ]
    assert manifest["files"]["config.json"] == {
        "size": 2,
        "sha256": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
    }


def test_an_empty_store_has_no_latest_checkpoint() -> None:
    assert checkpoint.latest(MemoryStore(), pytest.fail) is None


def test_a_checkpoint_without_a_manifest_is_ignored() -> None:
    store = MemoryStore()
    checkpoint.save(store, checkpoint_at(1))
    checkpoint.save(store, checkpoint_at(2))
    del store.objects["checkpoints/000002/manifest.json"]
    assert checkpoint.complete(store) == [1]
    assert checkpoint.latest(store, pytest.fail) == checkpoint_at(1)


class Killed(BaseException):
    """Simulates that the process is killed."""


class KilledStore(MemoryStore):
    """Raises `Killed` after a given number of puts."""

    def __init__(self, puts: int) -> None:
        super().__init__()
        self.puts_left = puts

    def put(self, key: str, data: bytes) -> None:
        if self.puts_left == 0:
            raise Killed
        self.puts_left -= 1
        super().put(key, data)


@pytest.mark.parametrize("puts", range(5))
def test_a_save_killed_at_any_put_can_be_repeated_with_other_bytes(puts: int) -> None:
    store = KilledStore(puts=5 + puts)
    checkpoint.save(store, checkpoint_at(1))
    with pytest.raises(Killed):
        checkpoint.save(store, checkpoint_at(2, attempt=1))
    assert checkpoint.latest(store, pytest.fail) == checkpoint_at(1)
    store.puts_left = 100
    checkpoint.save(store, checkpoint_at(2, attempt=2))
    assert checkpoint.latest(store, pytest.fail) == checkpoint_at(2, attempt=2)


def test_other_processes_write_their_files_while_this_one_writes() -> None:
    store = WaitedForStore()

    def written_elsewhere() -> dict[str, StoredFile]:
        assert store.put_began.wait(10), "files are written one process after the other"
        return {"trainer/rank": stored_files.put(MemoryStore(), "trainer/rank", b"part")}

    checkpoint.save(store, checkpoint_at(1), written_elsewhere)
    manifest = json.loads(store.get("checkpoints/000001/manifest.json"))
    assert manifest["files"]["trainer/rank"]["size"] == 4


class WaitedForStore(MemoryStore):
    """Says when the first file is written."""

    def __init__(self) -> None:
        super().__init__()
        self.put_began = Event()

    def put(self, key: str, data: bytes) -> None:
        self.put_began.set()
        super().put(key, data)


def test_an_intact_checkpoint_is_never_overwritten() -> None:
    store = MemoryStore()
    checkpoint.save(store, checkpoint_at(1))
    checkpoint.save(store, checkpoint_at(1))
    with pytest.raises(StoreError, match=r"^checkpoints/000001/manifest.json: already in"):
        checkpoint.save(store, checkpoint_at(1, other=True))
    assert checkpoint.load(store, 1) == checkpoint_at(1)


@pytest.mark.parametrize(
    ("key", "data", "reason"),
    [
        ("checkpoints/000002/model.safetensors", b"weights 3", "9 bytes with sha256 "),
        (
            "checkpoints/000002/model.safetensors",
            b"weigh",
            "5 bytes with sha256 .*, expected 9",
        ),
        ("checkpoints/000002/trainer/progress.json", None, "damaged: missing"),
        ("checkpoints/000002/manifest.json", b"{", "damaged: not a manifest"),
        ("checkpoints/000002/manifest.json", b"[]", "damaged: not a manifest"),
        ("checkpoints/000002/manifest.json", b"{}", "damaged: not a manifest"),
        ("checkpoints/000002/manifest.json", b'{"format": 1}', "damaged: not a manifest"),
    ],
)
def test_a_damaged_checkpoint_is_reported_and_the_previous_one_is_loaded(
    key: str, data: bytes | None, reason: str
) -> None:
    store = MemoryStore()
    checkpoint.save(store, checkpoint_at(1))
    checkpoint.save(store, checkpoint_at(2))
    if data is None:
        del store.objects[key]
    else:
        store.objects[key] = data
    reported: list[str] = []
    assert checkpoint.latest(store, reported.append) == checkpoint_at(1)
    assert len(reported) == 1
    assert reported[0].startswith(f"{key}: in memory:")
    with pytest.raises(StoreError, match=reason):
        checkpoint.load(store, 2)
    checkpoint.save(store, checkpoint_at(2))
    assert checkpoint.latest(store, pytest.fail) == checkpoint_at(2)


@pytest.mark.parametrize("files", [None, [{"name": "config.json"}]])
def test_a_checkpoint_of_another_format_is_refused_and_never_replaced(files: object) -> None:
    """Regression: with another form of the list of files it counted as damaged, so that the run
    went on from the checkpoint before it and overwrote it."""
    store = MemoryStore()
    checkpoint.save(store, checkpoint_at(1))
    checkpoint.save(store, checkpoint_at(2))
    key = "checkpoints/000002/manifest.json"
    manifest = json.loads(store.objects[key]) | {"format": 2}
    store.objects[key] = json.dumps(
        manifest if files is None else manifest | {"files": files}
    ).encode()
    before = dict(store.objects)
    refused = rf"^{key}: in memory:: written by another version of AgentRL$"
    for use in (
        lambda: checkpoint.load(store, 2),
        lambda: checkpoint.latest(store, pytest.fail),
        lambda: checkpoint.save(store, checkpoint_at(2)),
    ):
        with pytest.raises(StoreError, match=refused):
            use()
    assert store.objects == before


def test_latest_raises_if_every_checkpoint_is_damaged() -> None:
    store = MemoryStore()
    checkpoint.save(store, checkpoint_at(1))
    store.objects["checkpoints/000001/config.json"] = b"[]"
    reported: list[str] = []
    with pytest.raises(StoreError, match=r"^checkpoints/000001/config.json: .* damaged"):
        checkpoint.latest(store, reported.append)
    assert len(reported) == 1


class UnreachableStore(MemoryStore):
    """Every read fails, as if the service could not be reached."""

    def get(self, key: str) -> bytes:
        raise StoreError(f"{key}: in memory:: connection refused")


def test_an_unreachable_store_is_not_reported_as_damage() -> None:
    store = UnreachableStore()
    checkpoint.save(store, checkpoint_at(1))
    with pytest.raises(StoreError, match="connection refused"):
        checkpoint.latest(store, pytest.fail)


def test_prune_keeps_the_last_and_the_listed_checkpoints() -> None:
    store = MemoryStore()
    for iteration in (10, 20, 30, 40, 50):
        checkpoint.save(store, checkpoint_at(iteration))
    assert checkpoint.prune(store, keep_last=2, keep={20, 60}, newest=50) == [10, 30]
    assert checkpoint.complete(store) == [20, 40, 50]
    assert checkpoint.prune(store, keep_last=2, keep={20}, newest=50) == []


def test_prune_deletes_checkpoints_after_the_newest_and_does_not_count_them() -> None:
    """Regression: 9 was deleted as soon as it was saved, because 10 was there, which is damaged."""
    store = MemoryStore()
    for iteration in (0, 7, 8, 9, 10):
        checkpoint.save(store, checkpoint_at(iteration))
    assert checkpoint.prune(store, keep_last=1, keep={0, 8, 10}, newest=9) == [7, 10]
    assert checkpoint.complete(store) == [0, 8, 9]


def test_prune_deletes_incomplete_checkpoints_except_one_being_saved() -> None:
    store = MemoryStore()
    store.put("checkpoints/000005/model.safetensors", b"half")
    checkpoint.save(store, checkpoint_at(10))
    store.put("checkpoints/000015/model.safetensors", b"half")
    assert checkpoint.prune(store, keep_last=1, newest=10) == [5]
    assert list(store.list("checkpoints/000015/")) == ["checkpoints/000015/model.safetensors"]


def test_files_are_saved_from_disk_and_loaded_to_disk(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "store")
    (tmp_path / "weights").write_bytes(b"large")
    checkpoint.save(
        store,
        Checkpoint(
            iteration=3, files={"model.safetensors": tmp_path / "weights"}, progress={"cursor": 1}
        ),
    )
    loaded = checkpoint.load(store, 3, spool=tmp_path)
    assert loaded.files == {"model.safetensors": tmp_path / "model.safetensors"}
    assert (tmp_path / "model.safetensors").read_bytes() == b"large"
    assert loaded.progress == {"cursor": 1}


def test_fetch_omits_the_trainer_files(tmp_path: Path) -> None:
    store = MemoryStore()
    checkpoint.save(store, checkpoint_at(3))
    checkpoint.fetch(store, 3, tmp_path / "model")
    assert sorted(path.name for path in (tmp_path / "model").rglob("*")) == [
        "config.json",
        "model.safetensors",
    ]


def test_keys_sort_by_iteration() -> None:
    assert keys.checkpoint(9, "a") < keys.checkpoint(10, "a")
    assert keys.iteration(9) == "iterations/000009.json"
    assert keys.trajectories(12, 9) == "trajectories/000012-000009.episodes"
    assert keys.iteration_and_policy(keys.trajectories(12, 9)) == (12, 9)
    assert keys.phase(2, "decision.json") == "phases/02/decision.json"
    assert keys.checkpoint_number("checkpoints/000012/config.json") == 12
    assert keys.checkpoint_number("checkpoints/best/config.json") == -1


class ConcurrentlyPrunedStore(MemoryStore):
    """Deletes all but the newest checkpoint before each download, like a concurrent run."""

    def get_file(self, key: str, path: Path) -> None:
        checkpoint.prune(self, 1, newest=4)
        super().get_file(key, path)


def test_a_checkpoint_deleted_during_fetch_is_not_reported_as_damaged(
    tmp_path: Path,
) -> None:
    store = ConcurrentlyPrunedStore()
    checkpoint.save(store, checkpoint_at(2))
    checkpoint.save(store, checkpoint_at(4))
    with pytest.raises(StoreError, match=r"^checkpoints/000002/config.json: not in memory:$"):
        checkpoint.fetch(store, 2, tmp_path)
