"""A walk that was done, killed or copied, and what is told of it."""

import json
import shutil
import signal
from pathlib import Path

from click.testing import CliRunner
from corridor_run import FORK

from agentrl_components.run.progress import SilentView
from agentrl_components.spec import AgentRLRun
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.tracking.tracker import MemoryTracker
from agentrl_pipelines.cli.main import main
from agentrl_pipelines.local.run import run_local


def done(run: AgentRLRun, root: Path, view: SilentView | None = None) -> None:
    run_local(run, root, view or SilentView(), MemoryTracker())


def interruptible(run: AgentRLRun, root: Path) -> None:
    """A run that sees Ctrl-C, whoever forked it: the server that workers come from does not."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    done(run, root)


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
    return metrics.output, heldout, store.get(keys.checkpoint(10, "model.safetensors"))


def copied(root: Path, to: Path, *forgotten: str) -> DirectoryStore:
    """A copy of a run without some of its files."""
    shutil.copytree(root, to, dirs_exist_ok=True)
    for name in forgotten:
        (to / name).unlink()
    return DirectoryStore(to / "store")
