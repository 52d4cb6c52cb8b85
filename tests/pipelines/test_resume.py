"""A run that is killed and started again is the run that was never disturbed."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from walk import FORK, manifest

from agentrl_components import checkpoint, layout
from agentrl_components.errors import SpecError, Stopped, StoreError
from agentrl_components.spec import AgentRLRun, Compute, dump
from agentrl_components.stores import DirectoryStore
from agentrl_components.tracker import MemoryTracker
from agentrl_components.view import SilentView
from agentrl_pipelines.cli import main
from agentrl_pipelines.local import run_local

NEEDS_PROC = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="looks for processes in /proc"
)
AGENTRL = str(Path(sys.executable).with_name("agentrl"))


def done(run: AgentRLRun, root: Path, view: SilentView | None = None) -> None:
    run_local(run, root, view or SilentView(), MemoryTracker())


def killed(run: AgentRLRun, root: Path, after_s: float) -> bool:
    """Start the run and kill it after some seconds. False: it was done before."""
    process = FORK.Process(target=run_local, args=(run, root, SilentView(), MemoryTracker()))
    process.start()
    process.join(after_s)
    process.kill()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def told(root: Path) -> tuple[str, dict, bytes]:
    """Everything about a run that must not depend on how it came about."""
    metrics = CliRunner().invoke(main, ["metrics", "--root", str(root)])
    assert metrics.exit_code == 0
    heldout = json.loads((root / "report.json").read_text())["heldout"]
    store = DirectoryStore(root / "store")
    return metrics.output, heldout, store.get(layout.checkpoint(10, "model.safetensors"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> tuple[Path, float]:
    """A run that nothing happened to, and the seconds it took."""
    root = tmp_path_factory.mktemp("undisturbed")
    process = FORK.Process(target=run_local, args=(manifest(), root, SilentView(), MemoryTracker()))
    process.start()  # starts the server
    process.kill()
    process.join()
    began = time.monotonic()
    assert not killed(manifest(), root, 60.0)
    return root, time.monotonic() - began


def test_a_run_killed_at_random_moments_tells_the_same_to_the_bit(undisturbed, tmp_path):
    calm, span = undisturbed
    moments = random.Random(0)
    kills = finished = 0
    while not (finished and kills >= 6):
        root = tmp_path / str(finished)
        wait = moments.uniform(0.02, 0.7) * span if kills < 12 else 60.0
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
    source = f"file://{undisturbed[0]}/store/{layout.checkpoint(10)}"
    short = {"phases": [{"maxTurns": 2, "iterations": 1}]}
    again = manifest(model={"source": source, "template": "plain"}, warmStart=None, horizon=short)
    done(again, tmp_path)
    store = DirectoryStore(tmp_path / "store")
    first = store.get(layout.checkpoint(0, "model.safetensors"))
    assert first == DirectoryStore(undisturbed[0] / "store").get(
        layout.checkpoint(10, "model.safetensors")
    )


def copied(root: Path, to: Path, *forgotten: str) -> DirectoryStore:
    """A copy of a run without some of its files."""
    shutil.copytree(root, to, dirs_exist_ok=True)
    for name in forgotten:
        (to / name).unlink()
    return DirectoryStore(to / "store")


def test_a_damaged_checkpoint_is_told_and_the_one_before_it_taken(undisturbed, tmp_path):
    calm, _ = undisturbed
    after = ("report.json", "store/evaluations/after.json")
    store = copied(calm, tmp_path, *after)
    newest = tmp_path / "store" / layout.checkpoint(10, "model.safetensors")
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
        weights = tmp_path / "store" / layout.checkpoint(number, "model.safetensors")
        weights.write_bytes(b"")
    with pytest.raises(StoreError, match=r"checkpoints/\d+/model\.safetensors: .*damaged"):
        done(manifest(), tmp_path)
    assert checkpoint.complete(store) == there
    assert len(list(store.list(layout.ITERATIONS))) == 10


def test_a_deadline_stops_the_run_where_it_can_go_on(tmp_path):
    endless = {"phases": [{"maxTurns": 2, "iterations": 100_000}]}
    run = manifest(horizon=endless, activeDeadlineSeconds=1, evaluation={"every": 0})
    store = DirectoryStore(tmp_path / "store")
    for _ in range(20):  # a busy machine may spend a whole start before its first iteration
        with pytest.raises(Stopped, match=r"spec\.activeDeadlineSeconds \(1\) has passed"):
            done(run, tmp_path)
        played = len(list(store.list(layout.ITERATIONS)))
        if played:
            break
    assert played > 0
    assert checkpoint.complete(store)[-1] == played
    assert json.loads(store.get(layout.STATE))["status"] == "stopped"


def test_a_rollback_returns_the_weights_and_survives_being_killed(tmp_path):
    alarm = {"action": "rollback", "window": 2, "entropyBelow": 50}
    phases = [{"maxTurns": 2, "iterations": 5}, {"maxTurns": 4, "iterations": 5}]
    run = manifest(horizon={"phases": phases, "alarms": [alarm]}, update={"keepLast": 20}, seed=3)
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    began = time.monotonic()
    assert not killed(run, calm, 60.0)
    seconds = time.monotonic() - began
    store = DirectoryStore(calm / "store")
    decisions = [json.loads(store.get(key))["decision"] for key in store.list(layout.ITERATIONS)]
    actions = [decision["action"] for decision in decisions]
    assert actions.count("rollback") == 2
    place = actions.index("rollback")
    assert "back to the checkpoint of iteration" in decisions[place]["reason"]
    back = int(decisions[place]["reason"].rsplit(" ", 1)[1])
    assert back < place
    weights = [
        store.get(layout.checkpoint(number + 1, "model.safetensors")) for number in (back, place)
    ]
    assert weights[0] == weights[1]

    moments = random.Random(1)
    kills = 0
    while killed(run, rough, moments.uniform(0.1, 0.8) * seconds if kills < 4 else 60.0):
        kills += 1
    assert told(rough) == told(calm)


def test_what_was_played_ahead_survives_kills_and_a_damaged_checkpoint(tmp_path):
    run = manifest(rollout={"maxStaleness": 2})
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    began = time.monotonic()
    assert not killed(run, calm, 60.0)
    seconds = time.monotonic() - began
    moments = random.Random(2)
    kills = 0
    while killed(run, rough, moments.uniform(0.1, 0.8) * seconds if kills < 4 else 60.0):
        kills += 1
    assert told(rough) == told(calm)

    copied(calm, tmp_path / "damaged", "report.json", "store/evaluations/after.json")
    newest = tmp_path / "damaged/store" / layout.checkpoint(10, "model.safetensors")
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


def children(pid: int) -> list[int]:
    """Every process that descends from `pid`."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rsplit(")", 1)[1].split()[1])
    found = [pid]
    for one in found:  # grows while it is gone through
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def alive(pid: int) -> bool:
    """Whether it runs; a zombie that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def waited_for(what: Callable[[], bool], seconds: float) -> bool:
    """Whether `what` came true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.01)
    return False


def test_ctrl_c_stops_the_run_where_it_can_go_on(tmp_path):
    endless = {"phases": [{"maxTurns": 2, "iterations": 100_000}]}
    run = manifest(horizon=endless, evaluation={"every": 0}, update={"checkpointEvery": 1000})
    process = FORK.Process(target=run_local, args=(run, tmp_path, SilentView(), MemoryTracker()))
    process.start()
    records = tmp_path / "store" / layout.ITERATIONS
    assert waited_for(lambda: records.is_dir() and any(records.iterdir()), 60)
    os.kill(process.pid, signal.SIGINT)
    process.join(60)
    assert process.exitcode == 1  # the error `Stopped`; the command makes 130 of it
    store = DirectoryStore(tmp_path / "store")
    assert json.loads(store.get(layout.STATE))["message"] == "interrupted"
    assert checkpoint.complete(store)[-1] == len(list(store.list(layout.ITERATIONS)))


@NEEDS_PROC
def test_workers_do_not_outlive_a_run_that_is_killed(tmp_path):
    run = manifest(compute={"workers": 2})
    process = FORK.Process(target=run_local, args=(run, tmp_path, SilentView(), MemoryTracker()))
    process.start()
    assert waited_for(lambda: len(children(process.pid)) >= 2, 60)
    workers = children(process.pid)
    process.kill()
    process.join()
    assert waited_for(lambda: not any(map(alive, workers)), 90)


@pytest.mark.slow
@NEEDS_PROC
def test_the_command_stopped_killed_and_finished_with_two_workers_tells_what_one_tells(tmp_path):
    phases = [{"maxTurns": 2, "iterations": 40}, {"maxTurns": 4, "iterations": 40}]
    one = manifest(horizon={"phases": phases}, update={"checkpointEvery": 20})
    two = one.model_copy(
        update={"spec": one.spec.model_copy(update={"compute": Compute(workers=2, device="cpu")})}
    )
    file, root, calm = tmp_path / "run.yaml", tmp_path / "root", tmp_path / "calm"
    file.write_text(dump(two))
    records = root / "store" / layout.ITERATIONS

    def started() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [AGENTRL, "run", str(file), "--root", str(root)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def played() -> int:
        return len(list(records.glob("*.json"))) if records.is_dir() else 0

    interrupted = started()
    assert waited_for(lambda: played() >= 3, 200)
    interrupted.send_signal(signal.SIGINT)
    output, _ = interrupted.communicate(timeout=180)
    assert interrupted.returncode == 130
    assert "stopped: interrupted. The same command goes on from here." in output
    assert "Traceback" not in output

    done_before = played()
    assert done_before < 80
    shot = started()
    assert waited_for(lambda: played() > done_before, 200)
    descendants = children(shot.pid)
    assert len(descendants) >= 2
    shot.kill()
    shot.communicate(timeout=180)
    assert waited_for(lambda: not any(map(alive, descendants)), 90)

    last = started()
    output, _ = last.communicate(timeout=300)
    assert last.returncode == 0, output
    assert not killed(one, calm, 60.0)
    assert lines(root) == lines(calm)


def lines(root: Path) -> str:
    return CliRunner().invoke(main, ["metrics", "--root", str(root)]).output
