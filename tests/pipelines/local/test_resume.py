"""A run that is killed and resumed gives bit-identical results."""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from corridor_run import forked, manifest
from local_run import copy_run, results, run_and_kill, run_to_end, run_with_kills

from agentrl_components.errors import SpecError, Stopped, StoreError
from agentrl_components.run.journal import Journal
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.storage import checkpoint, keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.storage.records import read_state
from agentrl_components.tracking.tracker import MemoryTracker
from agentrl_pipelines.local.run import run_local


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> tuple[Path, float]:
    """The folder of an undisturbed run, and its duration in seconds."""
    root = tmp_path_factory.mktemp("undisturbed")
    with forked(run_local, manifest(), root, SilentProgressView(), MemoryTracker()):
        pass  # the fork server has started
    began = time.monotonic()
    assert not run_and_kill(manifest(), root, 600.0)
    return root, time.monotonic() - began


def test_a_run_killed_at_random_moments_gives_bit_identical_results(undisturbed, tmp_path):
    reference, span = undisturbed
    moments = random.Random(0)
    kills = finished = 0
    while not (finished and kills >= 6):
        root = tmp_path / str(finished)
        wait = moments.uniform(0.02, 0.7) * span if kills < 12 else 600.0
        if run_and_kill(manifest(), root, wait):
            kills += 1
        else:
            assert results(root) == results(reference)
            finished += 1
            span /= 2  # the machine may have been busy when it was measured


class InterruptingView(SilentProgressView):
    """Presses Ctrl-C when a stage begins."""

    def __init__(self, at: str) -> None:
        super().__init__()
        self._at = at

    def stage(self, name: str, total: int | None = None) -> None:
        super().stage(name, total)
        if name == self._at:
            signal.raise_signal(signal.SIGINT)


def test_ctrl_c_is_obeyed_after_each_evaluation_and_none_is_repeated(undisturbed, tmp_path):
    stages: list[str] = []
    stops = [
        # The stage that is interrupted, the last one that begins, and the newest checkpoint.
        ("provision", "provision", []),
        ("evaluate: random", "evaluate: random", []),
        ("evaluate: before", "evaluate: before", [0]),
        ("evaluate: iteration-000003", "train", [3]),  # after the iteration is recorded
        ("evaluate: iteration-000005", "evaluate: iteration-000005", [5]),
    ]
    for at, last, newest in stops:
        view = InterruptingView(at)
        with pytest.raises(Stopped, match="interrupted"):
            run_to_end(manifest(), tmp_path, view)
        stages += view.stages
        assert view.stages[-1] == last
        assert checkpoint.complete(DirectoryStore(tmp_path / "store"))[-1:] == newest
    view = SilentProgressView()
    run_to_end(manifest(), tmp_path, view)
    evaluations = sorted(one for one in stages + view.stages if one.startswith("evaluate"))
    numbers = [f"evaluate: iteration-{n:06d}" for n in (3, 5, 6, 9)]
    assert evaluations == sorted(
        ["evaluate: random", "evaluate: before", *numbers, "evaluate: after"]
    )
    assert results(tmp_path) == results(undisturbed[0])


def test_a_changed_manifest_is_refused_and_the_field_is_named(undisturbed):
    root, _ = undisturbed
    before = results(root)
    with pytest.raises(SpecError, match=r"spec\.update\.learningRate: .* 0\.003, not 0\.1; "):
        run_to_end(manifest(update={"learningRate": 0.1}), root)
    assert results(root) == before


def test_a_completed_run_repeats_no_stage(undisturbed):
    root, _ = undisturbed
    before = results(root)
    view = SilentProgressView()
    run_to_end(manifest(), root, view)
    assert [name for name in view.stages if name != "provision"] == []
    assert results(root) == before


def test_a_checkpoint_can_be_the_model_source_of_another_run(undisturbed, tmp_path):
    source = f"file://{undisturbed[0]}/store/{keys.checkpoint(10)}"
    short = {"phases": [{"maxTurns": 2, "iterations": 1}]}
    again = manifest(model={"source": source, "template": "plain"}, warmStart=None, horizon=short)
    run_to_end(again, tmp_path)
    store = DirectoryStore(tmp_path / "store")
    first = store.get(keys.checkpoint(0, "model.safetensors"))
    assert first == DirectoryStore(undisturbed[0] / "store").get(
        keys.checkpoint(10, "model.safetensors")
    )


def test_a_damaged_checkpoint_is_reported_and_the_previous_one_is_used(undisturbed, tmp_path):
    reference, _ = undisturbed
    after = ("report.json", "store/evaluations/after.json")
    store = copy_run(reference, tmp_path, *after)
    newest = tmp_path / "store" / keys.checkpoint(10, "model.safetensors")
    newest.write_bytes(newest.read_bytes()[:-1])
    view = SilentProgressView()
    run_to_end(manifest(), tmp_path, view)
    assert "checkpoints/000010/model.safetensors" in view.notes[0]
    assert "damaged" in view.notes[0]
    assert "resumed after iteration 8" in view.notes[1]
    assert checkpoint.load(store, 10).iteration == 10
    assert results(tmp_path) == results(reference)


def test_nothing_is_deleted_if_every_checkpoint_is_damaged(undisturbed, tmp_path):
    store = copy_run(undisturbed[0], tmp_path)
    numbers = checkpoint.complete(store)
    for number in numbers:
        weights = tmp_path / "store" / keys.checkpoint(number, "model.safetensors")
        weights.write_bytes(b"")
    with pytest.raises(StoreError, match=r"checkpoints/\d+/model\.safetensors: .*damaged"):
        run_to_end(manifest(), tmp_path)
    assert checkpoint.complete(store) == numbers
    assert len(list(store.list(keys.ITERATIONS))) == 10


def test_a_rollback_restores_the_weights_and_survives_kills(tmp_path):
    alarm = {"action": "rollback", "window": 2, "entropyBelow": 50}
    phases = [{"maxTurns": 2, "iterations": 5}, {"maxTurns": 4, "iterations": 5}]
    run = manifest(horizon={"phases": phases, "alarms": [alarm]}, update={"keepLast": 20}, seed=3)
    reference = tmp_path / "reference"
    began = time.monotonic()
    assert not run_and_kill(run, reference, 600.0)
    seconds = time.monotonic() - began
    store = DirectoryStore(reference / "store")
    decisions = [json.loads(store.get(key))["decision"] for key in store.list(keys.ITERATIONS)]
    actions = [decision["action"] for decision in decisions]
    assert actions.count("rollback") == 2
    versions = [json.loads(store.get(key))["version"] for key in store.list(keys.ITERATIONS)]
    place = actions.index("rollback")
    assert "back to the checkpoint of iteration" in decisions[place]["reason"]
    back = int(decisions[place]["reason"].rsplit(" ", 1)[1])
    assert back < place
    # One for the update, one for the restored weights: engines that hold the discarded ones reload.
    assert versions[place + 1] == versions[place] + 2
    weights = [
        store.get(keys.checkpoint(number + 1, "model.safetensors")) for number in (back, place)
    ]
    assert weights[0] == weights[1]

    moments = random.Random(1)
    disturbed = run_with_kills(
        run, tmp_path, [moments.uniform(0.1, 0.3) * seconds for _ in range(3)]
    )
    assert results(disturbed) == results(reference)


def test_stale_rollouts_survive_kills_and_a_damaged_checkpoint(tmp_path):
    run = manifest(rollout={"maxStaleness": 2})
    reference = tmp_path / "reference"
    began = time.monotonic()
    assert not run_and_kill(run, reference, 600.0)
    seconds = time.monotonic() - began
    moments = random.Random(2)
    disturbed = run_with_kills(
        run, tmp_path, [moments.uniform(0.1, 0.3) * seconds for _ in range(3)]
    )
    assert results(disturbed) == results(reference)

    copy_run(reference, tmp_path / "damaged", "report.json", "store/evaluations/after.json")
    newest = tmp_path / "damaged/store" / keys.checkpoint(10, "model.safetensors")
    newest.write_bytes(newest.read_bytes()[:-1])
    run_to_end(run, tmp_path / "damaged")
    assert results(tmp_path / "damaged") == results(reference)


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of 3 MB, mounted as tmpfs."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("only root can make a small file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_is_reported_and_loses_nothing(undisturbed, small_disk):
    filler = small_disk / "filler"
    for left in (30_000, 300_000, 700_000):
        free = os.statvfs(small_disk)
        filler.write_bytes(bytes(max(0, free.f_bavail * free.f_frsize - left)))
        with pytest.raises(StoreError, match=r"No space left on device.*ree some space"):
            run_to_end(manifest(), small_disk / "run")
        filler.unlink()
    run_to_end(manifest(), small_disk / "run")
    assert results(small_disk / "run") == results(undisturbed[0])


def test_an_unwritable_folder_is_named(small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(StoreError, match=r"disk.*Read-only file system; give a folder"):
        run_to_end(manifest(), small_disk / "run")


def test_a_folder_that_is_a_file_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"file.*; give a folder"):
        run_to_end(manifest(), tmp_path / "file" / "run")


def test_a_run_that_an_error_ended_is_failed_until_it_is_resumed(tmp_path):
    """The evaluation after iteration 3 is in the store, and damaged."""
    store, name = DirectoryStore(tmp_path / "store"), keys.evaluation("iteration-000003")

    class DamagingView(SilentProgressView):
        """Damages it when training begins."""

        def stage(self, name: str, total: int | None = None) -> None:
            if name == "train":
                store.put(keys.evaluation("iteration-000003"), b"{}")

    with pytest.raises(StoreError) as raised:
        run_to_end(manifest(), tmp_path, DamagingView())
    state = read_state(store)
    assert (state.status, state.iteration, state.reason) == ("failed", 2, "StoreError")
    assert state.message == str(raised.value)
    store.delete(name)
    report = run_local(manifest(), tmp_path, SilentProgressView(), MemoryTracker())
    assert (report.status, report.message) == ("succeeded", "10 iterations")
    assert read_state(store).reason == ""


def test_another_manifest_in_the_folder_does_not_change_the_state(tmp_path):
    """The folder of a run that was killed."""
    store = DirectoryStore(tmp_path / "store")
    journal = Journal(store)
    journal.begin(manifest())
    journal.write_state("running", "the environments are ready")
    before = store.get(keys.STATE)
    with pytest.raises(SpecError):
        run_to_end(manifest(update={"learningRate": 0.1}), tmp_path)
    assert store.get(keys.STATE) == before
