"""A run on this machine: the stages, one after another, in one process and its workers.

A directory stands in for MinIO and SQLite for MLflow; nothing else differs from a run on a cluster.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import FrameType

from agentrl_components.errors import CollapseError, Stopped, TrackerError
from agentrl_components.reporting import build
from agentrl_components.reporting.build import Report
from agentrl_components.run.context import RunContext
from agentrl_components.run.progress import View
from agentrl_components.schedule.decision import Decision
from agentrl_components.spec import AgentRLRun
from agentrl_components.spec.parsing.load import flatten
from agentrl_components.stages.before_training import begin
from agentrl_components.stages.evaluate import evaluate_phase
from agentrl_components.stages.expand import expand
from agentrl_components.stages.provision import provision
from agentrl_components.stages.train import train
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore, open_store
from agentrl_components.tracking.tracker import Tracker
from agentrl_pipelines.local.run_folder import writing
from agentrl_pipelines.tracking import best_model, open_tracker


def run_local(run: AgentRLRun, root: Path, view: View, tracker: Tracker | None = None) -> Report:
    """Do the run, or what is left of it, in `root`. Raises `Stopped` when someone ends it; the same
    call goes on from there. `tracker` is MLflow where none is given."""
    with writing(root):
        root.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=root, prefix="."):
            pass  # the folder can be written to
    store = open_store(run.spec.storage, root / "store")
    tracker = tracker or open_tracker(run, root, store)
    status = "FAILED"
    try:
        with interruptible(run.spec.active_deadline_seconds, view) as should_stop:
            context = RunContext(run, store, tracker, view, should_stop)
            with context:
                result = follow(context, root)
        status = "FINISHED"
    except Stopped:
        status = "KILLED"
        raise
    finally:
        view.close()
        for line in tracker.close(status):
            view.note(f"tracking: {TrackerError(line)}")
    return result


def follow(context: RunContext, root: Path) -> Report:
    """Every stage in its order, phase by phase."""
    try:
        with context.stage("provision"):
            worlds = context.crew.worlds
            context.crew.home.run(provision(context.run, worlds, context.journal))
        if context.spec.storage.url is not None:
            # `agentrl report` and `metrics` find a run whose store is elsewhere by this.
            DirectoryStore(root).replace(keys.RUN, context.store.get(keys.RUN))
        context.tracker.params(flatten(context.run))
        begin(context)
        decision = play_phases(context)
        if decision.action == "stop":
            done = len(context.history)
            raise CollapseError(f"stopped after iteration {done}: {decision.reason}")
    except Stopped as stopped:
        context.journal.state("stopped", str(stopped))
        raise
    except CollapseError as collapse:
        context.journal.state("failed", str(collapse))
        tell(context, root)
        raise
    context.journal.state("succeeded", f"{len(context.history)} iterations")
    result = tell(context, root)
    registered = context.spec.tracking.register_as
    if registered is not None:
        model = best_model(context.store, context.spec, context.history, root)
        context.tracker.model(model, registered)
    return result


def play_phases(context: RunContext) -> Decision:
    """Phase after phase, from the one that was worked on last."""
    phase = context.history[-1].phase if context.history else 0
    while True:
        evaluate_phase(context, train(context, phase))
        horizon, history = context.spec.horizon, context.history
        decision = expand(context.journal, horizon, history, context.rolled_back, phase)
        if decision.action != "advance":
            return decision
        phase = decision.phase


def tell(context: RunContext, root: Path) -> Report:
    """Write the report and show it in the tracker."""
    result = build.build(context.store, context.run, root)
    with writing(root):
        build.write(result, root)
    for name in ("report.json", "report.html", "curve.png"):
        context.tracker.artifact(root / name)
    return result


@contextmanager
def interruptible(deadline_s: int | None, view: View) -> Iterator[Callable[[], str | None]]:
    """A function that says why to stop: Ctrl-C or the deadline. A second Ctrl-C interrupts at
    once."""
    asked: list[str] = []
    began = time.monotonic()

    def on_signal(number: int, frame: FrameType | None) -> None:
        del frame
        if asked:
            raise KeyboardInterrupt
        asked.append("interrupted" if number == signal.SIGINT else "asked to end")
        view.note("stopping at the next safe point; Ctrl-C again stops at once")

    def should_stop() -> str | None:
        if deadline_s is not None and time.monotonic() - began > deadline_s:
            return f"spec.activeDeadlineSeconds ({deadline_s}) has passed"
        return asked[0] if asked else None

    before = {n: signal.signal(n, on_signal) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield should_stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
