"""Two processes cannot run in one folder."""

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from corridor_run import manifest
from local_run import run_to_end

from agentrl_components.errors import RunError
from agentrl_components.run.journal import Journal
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.spec import dump
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.storage.records import RunState
from agentrl_pipelines.cli.main import main
from agentrl_pipelines.local.root_lock import LOCK_FILE, holder_was_killed, lock_root

HOLD = """
import sys
from pathlib import Path
from agentrl_pipelines.local.root_lock import lock_root
with lock_root(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


class LockView(SilentProgressView):
    """Looks for the lock file of `folder` at the beginning of each stage."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.locked: dict[str, bool] = {}

    def stage(self, name: str, total: int | None = None) -> None:
        super().stage(name, total)
        self.locked[name] = (self.folder / LOCK_FILE).exists()


@contextmanager
def holder(root: Path) -> Iterator[subprocess.Popen]:
    """A process that holds the lock of `root`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"held\n"
    with process:
        yield process
        process.stdin.close()


def test_a_second_run_in_the_same_folder_names_the_first_and_changes_nothing(tmp_path):
    root, file = tmp_path / "root", tmp_path / "run.yaml"
    root.mkdir()
    file.write_text(dump(manifest()))
    with holder(root) as first:
        before = sorted(root.rglob("*"))
        result = CliRunner().invoke(main, ["run", str(file), "--root", str(root)])
        assert sorted(root.rglob("*")) == before
    assert result.exit_code == 1
    assert f"error: {root}: in use by process {first.pid} on " in result.stderr
    assert "give another --root" in result.stderr


@pytest.mark.parametrize("default", [False, True], ids=["its own URL", "the first run's folder"])
def test_a_second_run_on_the_store_of_the_first_changes_nothing(tmp_path, default):
    """From another folder, where the same command has another default of `--root`."""
    kept = tmp_path / "first" / "store"
    run = manifest(storage={"url": kept.as_uri()})
    journal = Journal(DirectoryStore(kept))
    journal.begin(run)
    with holder(kept) as first:
        before = {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()}
        root = tmp_path / ("first" if default else "second")
        told = f"{kept}: in use by process {first.pid} .*{'--root' if default else 'storage.url'}$"
        with pytest.raises(RunError, match=told):
            run_to_end(manifest() if default else run, root)
        assert {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()} == before


def test_the_store_of_a_run_is_locked_while_it_runs_and_free_afterwards(tmp_path):
    kept = tmp_path / "kept"
    run = manifest(
        storage={"url": kept.as_uri()},
        warmStart=None,
        horizon={"phases": [{"maxTurns": 2, "iterations": 1}]},
    )
    view = LockView(kept)
    run_to_end(run, tmp_path / "first", view)
    assert {"provision", "train", "evaluate: after"} <= set(view.locked)
    assert all(view.locked.values())
    assert LOCK_FILE not in {path.name for path in tmp_path.rglob("*")}


def test_the_report_of_a_run_whose_process_was_killed_says_so(tmp_path):
    store = DirectoryStore(tmp_path / "store")
    store.put(keys.RUN, manifest().model_dump_json(by_alias=True).encode())
    store.put(
        keys.STATE,
        RunState(status="running", message="iteration 3 of 10").model_dump_json().encode(),
    )

    def reported() -> str:
        result = CliRunner().invoke(main, ["report", "--root", str(tmp_path)])
        assert result.exit_code == 0, result.output
        return " ".join(result.stdout.split())

    assert "running: iteration 3 of 10" in reported()  # as of a run that is elsewhere
    with holder(tmp_path) as first:
        assert "running: iteration 3 of 10" in reported()
        first.kill()
        first.wait()
    killed = "stopped: the process of the run was killed; run the same command again to resume"
    assert killed in reported()
    assert killed in (tmp_path / "report.html").read_text()


def test_whether_a_process_on_another_host_was_killed_is_not_known(tmp_path):
    (tmp_path / LOCK_FILE).write_text("process 1 on elsewhere.example, started 2026-01-01 00:00:00")
    assert not holder_was_killed(tmp_path)


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    with holder(tmp_path) as first:
        with pytest.raises(RunError, match=f"process {first.pid}"), lock_root(tmp_path):
            pass
        first.kill()
        first.wait()
        assert (tmp_path / LOCK_FILE).exists()
        with lock_root(tmp_path):
            pass
    assert not (tmp_path / LOCK_FILE).exists()


def test_a_file_system_without_locks_is_a_note(tmp_path, monkeypatch):
    def refuse(file, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "lockf", refuse)  # as NFS and Lustre do that are mounted so
    notes: list[str] = []
    with lock_root(tmp_path, notes.append):
        pass
    assert notes == [
        f"{tmp_path}: the file system has no locks (No locks available): a second run in this "
        "folder would not be refused, and would delete records of this one"
    ]
