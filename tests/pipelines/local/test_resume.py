"""A run that is killed and started again is the run that was never disturbed."""

import json
import os
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from corridor_run import FORK, manifest
from local_run import copied, done, killed, told

from agentrl_components.errors import SpecError, StoreError
from agentrl_components.run.progress import SilentView
from agentrl_components.storage import checkpoint, keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.tracking.tracker import MemoryTracker
from agentrl_pipelines.local.run import run_local


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> tuple[Path, float]:
    """A run that nothing happened to, and the seconds it took."""
    root = tmp_path_factory.mktemp("undisturbed")
    process = FORK.Process(target=run_local, args=(manifest(), root, SilentView(), MemoryTracker()))
    process.start()  # starts the server
    process.kill()
    process.join()
    began = time.monotonic()
    assert not killed(manifest(), root, 600.0)
    return root, time.monotonic() - began


def test_a_run_killed_at_random_moments_tells_the_same_to_the_bit(undisturbed, tmp_path):
    calm, span = undisturbed
    moments = random.Random(0)
    kills = finished = 0
    while not (finished and kills >= 6):
        root = tmp_path / str(finished)
        wait = moments.uniform(0.02, 0.7) * span if kills < 12 else 600.0
        if killed(manifest(), root, wait):
            kills += 1
        else:
            assert told(root) == told(calm)
            finished += 1
            span /= 2  # the machine was busy when the span was measured


def test_a_manifest_that_changed_is_refused_by_the_name_of_its_field(undisturbed):
    root, _ = undisturbed
    before = told(root)
    with pytest.raises(SpecError, match=r"spec\.update\.learningRate: .* 0\.003, not 0\.1; "):
        done(manifest(update={"learningRate": 0.1}), root)
    assert told(root) == before


def test_a_run_that_is_done_does_nothing_twice(undisturbed):
    root, _ = undisturbed
    before = told(root)
    view = SilentView()
    done(manifest(), root, view)
    assert [name for name in view.stages if name != "provision"] == []
    assert told(root) == before


def test_a_checkpoint_of_one_run_is_the_model_of_the_next(undisturbed, tmp_path):
    source = f"file://{undisturbed[0]}/store/{keys.checkpoint(10)}"
    short = {"phases": [{"maxTurns": 2, "iterations": 1}]}
    again = manifest(model={"source": source, "template": "plain"}, warmStart=None, horizon=short)
    done(again, tmp_path)
    store = DirectoryStore(tmp_path / "store")
    first = store.get(keys.checkpoint(0, "model.safetensors"))
    assert first == DirectoryStore(undisturbed[0] / "store").get(
        keys.checkpoint(10, "model.safetensors")
    )


def test_a_damaged_checkpoint_is_told_and_the_one_before_it_taken(undisturbed, tmp_path):
    calm, _ = undisturbed
    after = ("report.json", "store/evaluations/after.json")
    store = copied(calm, tmp_path, *after)
    newest = tmp_path / "store" / keys.checkpoint(10, "model.safetensors")
    newest.write_bytes(newest.read_bytes()[:-1])
    view = SilentView()
    done(manifest(), tmp_path, view)
    assert "checkpoints/000010/model.safetensors" in view.notes[0]
    assert "damaged" in view.notes[0]
    assert "resumed after iteration 8" in view.notes[1]
    assert checkpoint.load(store, 10).iteration == 10
    assert told(tmp_path) == told(calm)


def test_where_every_checkpoint_is_damaged_the_run_is_not_thrown_away(undisturbed, tmp_path):
    store = copied(undisturbed[0], tmp_path)
    there = checkpoint.complete(store)
    for number in there:
        weights = tmp_path / "store" / keys.checkpoint(number, "model.safetensors")
        weights.write_bytes(b"")
    with pytest.raises(StoreError, match=r"checkpoints/\d+/model\.safetensors: .*damaged"):
        done(manifest(), tmp_path)
    assert checkpoint.complete(store) == there
    assert len(list(store.list(keys.ITERATIONS))) == 10


def test_a_rollback_returns_the_weights_and_survives_being_killed(tmp_path):
    alarm = {"action": "rollback", "window": 2, "entropyBelow": 50}
    phases = [{"maxTurns": 2, "iterations": 5}, {"maxTurns": 4, "iterations": 5}]
    run = manifest(horizon={"phases": phases, "alarms": [alarm]}, update={"keepLast": 20}, seed=3)
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    began = time.monotonic()
    assert not killed(run, calm, 600.0)
    seconds = time.monotonic() - began
    store = DirectoryStore(calm / "store")
    decisions = [json.loads(store.get(key))["decision"] for key in store.list(keys.ITERATIONS)]
    actions = [decision["action"] for decision in decisions]
    assert actions.count("rollback") == 2
    place = actions.index("rollback")
    assert "back to the checkpoint of iteration" in decisions[place]["reason"]
    back = int(decisions[place]["reason"].rsplit(" ", 1)[1])
    assert back < place
    weights = [
        store.get(keys.checkpoint(number + 1, "model.safetensors")) for number in (back, place)
    ]
    assert weights[0] == weights[1]

    moments = random.Random(1)
    kills = 0
    while killed(run, rough, moments.uniform(0.1, 0.8) * seconds if kills < 4 else 600.0):
        kills += 1
    assert told(rough) == told(calm)


def test_what_was_played_ahead_survives_kills_and_a_damaged_checkpoint(tmp_path):
    run = manifest(rollout={"maxStaleness": 2})
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    began = time.monotonic()
    assert not killed(run, calm, 600.0)
    seconds = time.monotonic() - began
    moments = random.Random(2)
    kills = 0
    while killed(run, rough, moments.uniform(0.1, 0.8) * seconds if kills < 4 else 600.0):
        kills += 1
    assert told(rough) == told(calm)

    copied(calm, tmp_path / "damaged", "report.json", "store/evaluations/after.json")
    newest = tmp_path / "damaged/store" / keys.checkpoint(10, "model.safetensors")
    newest.write_bytes(newest.read_bytes()[:-1])
    done(run, tmp_path / "damaged")
    assert told(tmp_path / "damaged") == told(calm)


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of 3 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("only root can make a small file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_is_told_and_loses_nothing(undisturbed, small_disk):
    filler = small_disk / "filler"
    for left in (30_000, 300_000, 700_000):
        free = os.statvfs(small_disk)
        filler.write_bytes(bytes(max(0, free.f_bavail * free.f_frsize - left)))
        with pytest.raises(StoreError, match=r"No space left on device.*ree some space"):
            done(manifest(), small_disk / "run")
        filler.unlink()
    done(manifest(), small_disk / "run")
    assert told(small_disk / "run") == told(undisturbed[0])


def test_a_folder_that_cannot_be_written_to_is_named(small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(StoreError, match=r"disk.*Read-only file system; give a folder"):
        done(manifest(), small_disk / "run")


def test_a_folder_that_is_a_file_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"file.*; give a folder"):
        done(manifest(), tmp_path / "file" / "run")
