"""Runs that are stopped by their deadline, by Ctrl-C or by SIGKILL leave no process behind."""

import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing, redirect_stdout
from pathlib import Path

import pytest
from click.testing import CliRunner
from corridor_run import forked, manifest
from local_run import run_and_kill, run_to_end, run_with_sigint
from spawned_processes import has_ended
from started import started

from agentrl_components.errors import Stopped
from agentrl_components.run.journal import Journal
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.spec import Compute, dump
from agentrl_components.storage import checkpoint, keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.tracking.tracker import MemoryTracker
from agentrl_pipelines.cli.main import main
from agentrl_pipelines.local.run import run_local

NEEDS_PROC = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="looks for processes in /proc"
)
AGENTRL = str(Path(sys.executable).with_name("agentrl"))


def test_a_deadline_stops_the_run_at_a_checkpoint(tmp_path):
    endless = {"phases": [{"maxTurns": 2, "iterations": 100_000}]}
    store = DirectoryStore(tmp_path / "store")
    for double in range(10):  # on a busy machine the first iteration may take long
        seconds = 2**double
        run = manifest(horizon=endless, activeDeadlineSeconds=seconds, evaluation={"every": 0})
        message = rf"spec\.activeDeadlineSeconds \({seconds}\) has passed"
        with pytest.raises(Stopped, match=message):
            run_to_end(run, tmp_path)
        played = len(list(store.list(keys.ITERATIONS)))
        if played:
            break
    assert played > 0
    assert checkpoint.complete(store)[-1] == played
    assert json.loads(store.get(keys.STATE))["status"] == "stopped"


def test_the_deadline_counts_the_work_of_earlier_starts(tmp_path):
    journal = Journal(DirectoryStore(tmp_path / "store"))
    journal.wall_seconds["rollout"] = 100.0
    journal.write_state("stopped", "interrupted")
    view = SilentProgressView()
    with pytest.raises(Stopped, match=r"\(100\) has passed; to go on, raise it"):
        run_to_end(manifest(activeDeadlineSeconds=100), tmp_path, view)
    assert view.stages == ["provision"]


def children(pid: int) -> list[int]:
    """All descendants of process `pid`."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rsplit(")", 1)[1].split()[1])
    found = [pid]
    for one in found:  # grows during the loop
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until `condition` is true. Returns False after `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


def test_ctrl_c_stops_the_run_at_a_checkpoint(tmp_path):
    endless = {"phases": [{"maxTurns": 2, "iterations": 100_000}]}
    run = manifest(horizon=endless, evaluation={"every": 0}, update={"checkpointEvery": 1000})
    records = tmp_path / "store" / keys.ITERATIONS
    with forked(run_with_sigint, run, tmp_path) as process:
        assert wait_until(lambda: records.is_dir() and any(records.iterdir()), 300)
        os.kill(process.pid, signal.SIGINT)
        process.join(300)
    assert process.exitcode == 1  # the error `Stopped`; the CLI turns it into exit code 130
    store = DirectoryStore(tmp_path / "store")
    assert json.loads(store.get(keys.STATE))["message"] == "interrupted"
    assert checkpoint.complete(store)[-1] == len(list(store.list(keys.ITERATIONS)))


def test_ctrl_c_stops_a_run_at_a_checkpoint_although_nobody_reads_its_output(tmp_path):
    """With `2>&1 | tee` a terminal interrupts `tee`, too, which is gone before the run prints."""
    endless = {"phases": [{"maxTurns": 2, "iterations": 100_000}]}
    run = manifest(horizon=endless, evaluation={"every": 0}, update={"checkpointEvery": 1000})
    file, root = tmp_path / "run.yaml", tmp_path / "root"
    file.write_text(dump(run))
    records = root / "store" / keys.ITERATIONS
    with started([AGENTRL, "run", str(file), "--root", str(root)]) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert wait_until(lambda: records.is_dir() and any(records.iterdir()), 300)
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == 130
    store = DirectoryStore(root / "store")
    assert json.loads(store.get(keys.STATE))["message"] == "interrupted"
    assert checkpoint.complete(store)[-1] == len(list(store.list(keys.ITERATIONS)))


def test_a_run_whose_output_cannot_be_written_ends_as_any_other(tmp_path):
    file, root = tmp_path / "run.yaml", tmp_path / "root"
    one = {"phases": [{"maxTurns": 2, "iterations": 1}]}
    file.write_text(dump(manifest(horizon=one, warmStart=None)))
    with open("/dev/full", "w") as full, redirect_stdout(full):
        main(["run", str(file), "--root", str(root)], standalone_mode=False)
    assert json.loads((root / "report.json").read_text())["status"] == "succeeded"


@pytest.mark.parametrize(
    ("number", "reason"),
    [(signal.SIGTERM, "terminated"), (signal.SIGHUP, "the terminal was closed")],
)
def test_a_signal_to_the_process_group_stops_a_run_with_workers_cleanly(tmp_path, number, reason):
    """`timeout`, systemd, Slurm and terminals signal the workers too, and MLflow's process."""
    endless = {"phases": [{"maxTurns": 2, "iterations": 100_000}]}
    compute = {"workers": 2, "device": "cpu"}
    run = manifest(horizon=endless, evaluation={"every": 0}, warmStart=None, compute=compute)
    file, root = tmp_path / "run.yaml", tmp_path / "root"
    file.write_text(dump(run))
    records = root / "store" / keys.ITERATIONS
    with started([AGENTRL, "run", str(file), "--root", str(root)]) as process:
        assert wait_until(lambda: records.is_dir() and any(records.iterdir()), 300)
        os.killpg(process.pid, number)
        output, _ = process.communicate(timeout=300)
    assert f"stopped: {reason}. Run the same command again to resume." in output
    assert "out of memory" not in output
    assert "Traceback" not in output
    assert process.returncode == 130
    store = DirectoryStore(root / "store")
    assert json.loads(store.get(keys.STATE))["message"] == reason
    assert checkpoint.complete(store)[-1] == len(list(store.list(keys.ITERATIONS)))
    with closing(sqlite3.connect(root / "mlflow.db")) as database:
        assert database.execute("select status from runs").fetchall() == [("KILLED",)]


@NEEDS_PROC
def test_workers_exit_when_the_run_is_killed(tmp_path):
    run = manifest(compute={"workers": 2})
    with forked(run_local, run, tmp_path, SilentProgressView(), MemoryTracker()) as process:
        assert wait_until(lambda: len(children(process.pid)) >= 2, 300)
        workers = children(process.pid)
    assert wait_until(lambda: all(map(has_ended, workers)), 300)


@pytest.mark.slow
@NEEDS_PROC
def test_a_run_interrupted_killed_and_resumed_with_two_workers_equals_one_worker(tmp_path):
    phases = [{"maxTurns": 2, "iterations": 40}, {"maxTurns": 4, "iterations": 40}]
    one = manifest(horizon={"phases": phases}, update={"checkpointEvery": 20})
    two = one.model_copy(
        update={"spec": one.spec.model_copy(update={"compute": Compute(workers=2, device="cpu")})}
    )
    file, root, reference = tmp_path / "run.yaml", tmp_path / "root", tmp_path / "reference"
    file.write_text(dump(two))
    records = root / "store" / keys.ITERATIONS

    command = [AGENTRL, "run", str(file), "--root", str(root)]

    def iterations() -> int:
        return len(list(records.glob("*.json"))) if records.is_dir() else 0

    with started(command) as interrupted:
        assert wait_until(lambda: iterations() >= 3, 600)
        interrupted.send_signal(signal.SIGINT)
        output, _ = interrupted.communicate(timeout=600)
    assert interrupted.returncode == 130
    assert "stopped: interrupted. Run the same command again to resume." in output
    assert "Traceback" not in output

    done_before = iterations()
    assert done_before < 80
    with started(command) as victim:
        assert wait_until(lambda: iterations() > done_before, 600)
        descendants = children(victim.pid)
        assert len(descendants) >= 2
        victim.kill()
        victim.communicate(timeout=600)
        assert wait_until(lambda: all(map(has_ended, descendants)), 300)

    with started(command) as last:
        output, _ = last.communicate(timeout=600)
    assert last.returncode == 0, output
    assert not run_and_kill(one, reference, 600.0)
    assert lines(root) == lines(reference)


def lines(root: Path) -> str:
    return CliRunner().invoke(main, ["metrics", "--root", str(root)]).output
