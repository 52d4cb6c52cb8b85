"""Helpers that run the corridor manifest, kill it, copy its folder and read its results."""

import json
import shutil
import signal
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from click.testing import CliRunner
from corridor_run import forked

from agentrl_components.run.progress import SilentProgressView
from agentrl_components.spec import AgentRLRun
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.tracking.tracker import MemoryTracker
from agentrl_pipelines.cli.main import main
from agentrl_pipelines.local.run import run_local

AGENTRL = "from agentrl_pipelines.cli.main import main; main()"
"""A Python program that is the command `agentrl`."""


def run_to_end(run: AgentRLRun, root: Path, view: SilentProgressView | None = None) -> None:
    run_local(run, root, view or SilentProgressView(), MemoryTracker())


def run_with_sigint(run: AgentRLRun, root: Path) -> None:
    """Run with SIGINT and SIGTERM unblocked; the fork server blocks them."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    run_to_end(run, root)


def run_and_kill(run: AgentRLRun, root: Path, after_s: float) -> bool:
    """Start the run and kill it after `after_s` seconds. Returns whether it was still running."""
    with forked(run_local, run, root, SilentProgressView(), MemoryTracker()) as process:
        process.join(after_s)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def run_with_kills(run: AgentRLRun, root: Path, waits: Sequence[float]) -> Path:
    """A run that is killed after each of `waits`, in seconds, and then ends. Returns its folder. If
    it ends before, it begins anew in another folder, and is killed earlier."""
    for number in count():
        folder = root / f"killed-{number}"
        if all(run_and_kill(run, folder, wait / 2**number) for wait in waits):
            assert not run_and_kill(run, folder, 600.0)
            break
    return folder


def results(root: Path) -> tuple[str, dict, bytes]:
    """The results that must not depend on how the run was executed."""
    metrics = CliRunner().invoke(main, ["metrics", "--root", str(root)])
    assert metrics.exit_code == 0
    heldout = json.loads((root / "report.json").read_text())["heldout"]
    store = DirectoryStore(root / "store")
    return metrics.output, heldout, store.get(keys.checkpoint(10, "model.safetensors"))


def copy_run(root: Path, to: Path, *without: str) -> DirectoryStore:
    """Copy the run's folder, without the files named `without`."""
    shutil.copytree(root, to, dirs_exist_ok=True)
    for name in without:
        (to / name).unlink()
    return DirectoryStore(to / "store")
