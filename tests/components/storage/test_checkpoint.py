"""A run goes on from exactly what was saved, or says what is damaged."""

import json
from pathlib import Path

import pytest

from agentrl_components.errors import StoreError
from agentrl_components.storage import checkpoint, keys
from agentrl_components.storage.checkpoint import Checkpoint
from agentrl_components.storage.open import DirectoryStore, MemoryStore

FILES = {"config.json": b"{}", "model.safetensors": b"weights", "trainer/critic.safetensors": b"c"}


def at(iteration: int, **progress: object) -> Checkpoint:
    return Checkpoint(
        iteration=iteration,
        files={**FILES, "model.safetensors": f"weights {iteration}".encode()},
        progress=progress or {"cursor": iteration, "history": [0.25, 0.5]},
    )


def test_what_is_saved_is_what_is_loaded() -> None:
    store = MemoryStore()
    checkpoint.save(store, at(7))
    assert checkpoint.load(store, 7) == at(7)
    assert checkpoint.latest(store, pytest.fail) == at(7)


def test_the_manifest_is_written_last_and_measures_everything() -> None:
    store = MemoryStore()
    checkpoint.save(store, at(7))
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


def test_a_run_without_checkpoints_has_no_latest() -> None:
    assert checkpoint.latest(MemoryStore(), pytest.fail) is None


def test_a_checkpoint_without_a_manifest_is_not_there() -> None:
    store = MemoryStore()
    checkpoint.save(store, at(1))
    checkpoint.save(store, at(2))
    del store.objects["checkpoints/000002/manifest.json"]
    assert checkpoint.complete(store) == [1]
    assert checkpoint.latest(store, pytest.fail) == at(1)


class Killed(BaseException):
    """The process is gone."""


class DyingStore(MemoryStore):
    """Dies after a number of puts."""

    def __init__(self, puts: int) -> None:
        super().__init__()
        self.puts_left = puts

    def put(self, key: str, data: bytes) -> None:
        if self.puts_left == 0:
            raise Killed
        self.puts_left -= 1
        super().put(key, data)


@pytest.mark.parametrize("puts", range(5))
def test_a_save_that_is_killed_anywhere_can_be_done_again_with_other_bytes(puts: int) -> None:
    store = DyingStore(puts=5 + puts)
    checkpoint.save(store, at(1))
    with pytest.raises(Killed):
        checkpoint.save(store, at(2, attempt=1))
    assert checkpoint.latest(store, pytest.fail) == at(1)
    store.puts_left = 100
    checkpoint.save(store, at(2, attempt=2))
    assert checkpoint.latest(store, pytest.fail) == at(2, attempt=2)


def test_an_intact_checkpoint_is_never_overwritten() -> None:
    store = MemoryStore()
    checkpoint.save(store, at(1))
    checkpoint.save(store, at(1))
    with pytest.raises(StoreError, match=r"^checkpoints/000001/manifest.json: already in"):
        checkpoint.save(store, at(1, other=True))
    assert checkpoint.load(store, 1) == at(1)


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
    ],
)
def test_damage_is_named_and_the_one_before_is_used(
    key: str, data: bytes | None, reason: str
) -> None:
    store = MemoryStore()
    checkpoint.save(store, at(1))
    checkpoint.save(store, at(2))
    if data is None:
        del store.objects[key]
    else:
        store.objects[key] = data
    told: list[str] = []
    assert checkpoint.latest(store, told.append) == at(1)
    assert len(told) == 1
    assert told[0].startswith(f"{key}: in memory:")
    with pytest.raises(StoreError, match=reason):
        checkpoint.load(store, 2)
    checkpoint.save(store, at(2))
    assert checkpoint.latest(store, pytest.fail) == at(2)


def test_a_run_whose_checkpoints_are_all_damaged_does_not_start_afresh() -> None:
    store = MemoryStore()
    checkpoint.save(store, at(1))
    store.objects["checkpoints/000001/config.json"] = b"[]"
    told: list[str] = []
    with pytest.raises(StoreError, match=r"^checkpoints/000001/config.json: .* damaged"):
        checkpoint.latest(store, told.append)
    assert len(told) == 1


class FlakyStore(MemoryStore):
    """Cannot be reached."""

    def get(self, key: str) -> bytes:
        raise StoreError(f"{key}: in memory:: connection refused")


def test_a_store_that_is_down_is_not_taken_for_damage() -> None:
    store = FlakyStore()
    checkpoint.save(store, at(1))
    with pytest.raises(StoreError, match="connection refused"):
        checkpoint.latest(store, pytest.fail)


def test_the_last_and_the_named_ones_are_kept() -> None:
    store = MemoryStore()
    for iteration in (10, 20, 30, 40, 50):
        checkpoint.save(store, at(iteration))
    assert checkpoint.prune(store, keep_last=2, keep={20, 60}) == [10, 30]
    assert checkpoint.complete(store) == [20, 40, 50]
    assert checkpoint.prune(store, keep_last=2, keep={20}) == []


def test_pruning_takes_what_killed_saves_left_but_not_one_in_the_making() -> None:
    store = MemoryStore()
    store.put("checkpoints/000005/model.safetensors", b"half")
    checkpoint.save(store, at(10))
    store.put("checkpoints/000015/model.safetensors", b"half")
    assert checkpoint.prune(store, keep_last=1) == [5]
    assert list(store.list("checkpoints/000015/")) == ["checkpoints/000015/model.safetensors"]


def test_large_files_go_through_folders(tmp_path: Path) -> None:
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


def test_the_model_folder_is_fetched_without_what_only_training_needs(tmp_path: Path) -> None:
    store = MemoryStore()
    checkpoint.save(store, at(3))
    checkpoint.fetch(store, 3, tmp_path / "model")
    assert sorted(path.name for path in (tmp_path / "model").rglob("*")) == [
        "config.json",
        "model.safetensors",
    ]


def test_keys_of_the_layout_sort_by_iteration() -> None:
    assert keys.checkpoint(9, "a") < keys.checkpoint(10, "a")
    assert keys.iteration(9) == "iterations/000009.json"
    assert keys.trajectories(12, 9) == "trajectories/000012-000009.episodes"
    assert keys.iteration_and_policy(keys.trajectories(12, 9)) == (12, 9)
    assert keys.phase(2, "decision.json") == "phases/02/decision.json"
    assert keys.checkpoint_number("checkpoints/000012/config.json") == 12
    assert keys.checkpoint_number("checkpoints/best/config.json") == -1


class Pruned(MemoryStore):
    """A run that goes on removes checkpoint 2 when somebody has just begun to read it."""

    def get_file(self, key: str, path: Path) -> None:
        checkpoint.prune(self, 1)
        super().get_file(key, path)


def test_a_checkpoint_that_is_removed_while_it_is_read_is_not_called_damaged(
    tmp_path: Path,
) -> None:
    store = Pruned()
    checkpoint.save(store, at(2))
    checkpoint.save(store, at(4))
    with pytest.raises(StoreError, match=r"^checkpoints/000002/config.json: not in memory:$"):
        checkpoint.fetch(store, 2, tmp_path)
