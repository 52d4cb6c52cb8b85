"""A run on this machine: all stages in one process and its workers.

The store is a directory and MLflow's backend is SQLite; otherwise the run is the same as on a
cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from agentrl_components.errors import (
    CollapseError,
    RunError,
    Stopped,
    StoreError,
    TrackerError,
    WorkersLostError,
)
from agentrl_components.reporting import build
from agentrl_components.reporting.build import Report
from agentrl_components.reporting.description import (
    model_description,
    model_metadata,
    run_description,
)
from agentrl_components.run.context import RunContext
from agentrl_components.run.journal import Journal
from agentrl_components.run.progress import ProgressView
from agentrl_components.schedule.record import Decision
from agentrl_components.spec import AgentRLRun
from agentrl_components.spec.parsing.load import flatten
from agentrl_components.stages.before_training import prepare
from agentrl_components.stages.evaluate import evaluate_phase
from agentrl_components.stages.expand import expand
from agentrl_components.stages.provision import provision
from agentrl_components.stages.train import train
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore, open_store
from agentrl_components.storage.records import read_state
from agentrl_components.storage.store import Store
from agentrl_components.tracking.tracker import Tracker
from agentrl_envs.errors import WorldError
from agentrl_pipelines.local.root_lock import lock_root
from agentrl_pipelines.local.run_folder import check_store, store_errors
from agentrl_pipelines.local.signals import handle_signals
from agentrl_pipelines.tracking import best_model, open_tracker

MAX_LOSSES_WITHOUT_PROGRESS = 3
"""After so many losses of processes that hold the model, without a new iteration in between, the
run gives up."""


def run_local(
    run: AgentRLRun, root: Path, view: ProgressView, tracker: Tracker | None = None
) -> Report:
    """Run, or resume, `run` in folder `root`, and return its report. `tracker` defaults to MLflow.

    Raises:
        Stopped: SIGINT, SIGTERM or the deadline. The same call resumes the run.
        CollapseError: an alarm stopped the run.
        RunError: another process runs in the folder, or in that of the store.
        SpecError: the folder or the store holds another run.
        StoreError: the folder cannot be written to.
    """
    with ExitStack() as stack:
        with store_errors(root):
            root.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=root, prefix="."):
                pass  # the folder is writable
            stack.enter_context(lock_root(root, view.note))
            check_store(root, run.spec.storage.url)
        store = open_store(run.spec.storage, root / "store")
        if isinstance(store, DirectoryStore):
            # A run in another folder may have the same store, by its `spec.storage.url`.
            given = run.spec.storage.url is not None
            instead = "set another spec.storage.url" if given else "give another --root"
            with store_errors(store.folder):
                stack.enter_context(lock_root(store.folder, view.note, instead=instead))
        return _run_locked(run, root, store, view, tracker)


def _run_locked(
    run: AgentRLRun, root: Path, store: Store, view: ProgressView, tracker: Tracker | None
) -> Report:
    worked_s = sum(read_state(store).wall_seconds.values())
    tracker = tracker or open_tracker(run, root, store, view.note)
    status = "FAILED"
    with handle_signals(run.spec.active_deadline_seconds, view, worked_s) as should_stop:
        try:
            report = _run_until_done(
                lambda: RunContext(run, store, tracker, view, should_stop), view, root
            )
            status = "FINISHED"
        except (Stopped, KeyboardInterrupt):
            status = "KILLED"
            raise
        finally:
            view.close()
            for line in tracker.close(status):
                view.note(f"tracking: {TrackerError(line)}")
    return report


def _run_until_done(
    open_context: Callable[[], RunContext], view: ProgressView, root: Path
) -> Report:
    """Run all stages. If processes that hold the model die, open new ones and resume from the last
    checkpoint, unless the run is to stop. Raises `WorkersLostError` if they die
    `MAX_LOSSES_WITHOUT_PROGRESS` times and finish no iteration in between that is new: iterations
    since the last checkpoint are done again. An error that ends the run is part of its state.
    A run that is stopped while it is opened counts as stopped, if the process before was killed."""
    lost, reached = 0, -1
    begun = False  # until then the state is that of an earlier process
    while True:
        context = open_context()
        try:
            with context:
                begun = True
                return run_stages(context, root)
        except WorkersLostError as error:
            _stop_after(error, context)
            lost = 1 if len(context.history) > reached else lost + 1
            reached = max(reached, len(context.history))
            if lost == MAX_LOSSES_WITHOUT_PROGRESS:
                given_up = WorkersLostError(
                    f"{error}; no iteration after {reached} was finished between "
                    f"{MAX_LOSSES_WITHOUT_PROGRESS} such losses; run the same command again: the "
                    "run goes on from its last checkpoint; if processes die often, lower "
                    "update.checkpointEvery"
                )
                if begun:
                    _write_end(context.journal, given_up)
                raise given_up from error
            view.note(f"{error}; the run resumes from its last checkpoint")
        except BaseException as error:
            if begun or isinstance(error, Stopped):
                if isinstance(error, StoreError):  # writing the state may take two minutes, too
                    view.note(str(error))
                _write_end(context.journal, error)
            raise


def _write_end(journal: Journal, error: BaseException) -> None:
    """Write to the state that `error` ended the run, unless it says already how the run ended."""
    if journal.current.status != "running":
        return
    reason = type(error).__name__
    with suppress(StoreError):  # the store may be what failed
        if not isinstance(error, Exception):
            journal.write_state("stopped", "interrupted")  # at once, by a second signal
        elif isinstance(error, Stopped):  # while it was opened
            journal.write_state("stopped", str(error))
        elif isinstance(error, RunError | WorldError):
            journal.write_state("failed", str(error), reason=reason)
        else:
            journal.write_state("failed", f"{reason}: {error}", reason=reason)


def _stop_after(loss: WorkersLostError, context: RunContext) -> None:
    """Raise `Stopped` if the run is to stop. A SIGTERM to the process group, as `timeout` and
    systemd send it, ends the processes of an embedded Ray, too: what they hold is lost, and nothing
    is gained by playing another iteration before the end."""
    try:
        context.check_stop()
    except Stopped as stopped:
        context.journal.write_state("stopped", str(stopped))
        raise stopped from loss


def run_stages(context: RunContext, root: Path) -> Report:
    """Run every stage of every phase, write the report and register the model."""
    try:
        with context.stage("provision"):
            worlds = context.workers.worlds
            context.workers.loop.run(provision(context.run, worlds, context.journal))
        if context.spec.storage.url is not None:
            # With this copy `agentrl report` and `metrics` find the store of the run.
            DirectoryStore(root).replace(keys.RUN, context.store.get(keys.RUN))
        context.tracker.params(flatten(context.run))
        prepare(context)
        decision = run_phases(context)
        if decision.action == "stop":
            done = len(context.history)
            raise CollapseError(f"stopped after iteration {done}: {decision.reason}")
    except Stopped as stopped:
        context.journal.write_state("stopped", str(stopped))
        raise
    except CollapseError as collapse:
        context.journal.write_state("failed", str(collapse))
        publish_report(context, root)
        raise
    context.journal.write_state("succeeded", f"{len(context.history)} iterations")
    report = publish_report(context, root)
    registered = context.spec.tracking.register_as
    if registered is not None:
        model = best_model(context.store, context.spec, context.history, root)
        metadata = model_metadata(context.spec)
        description = model_description(report, metadata)
        context.tracker.model(model, registered, description, metadata)
    return report


def run_phases(context: RunContext) -> Decision:
    """Train and evaluate phase by phase, from the phase of the last iteration. Returns the decision
    that ends the run."""
    phase = context.history[-1].phase if context.history else 0
    while True:
        evaluate_phase(context, train(context, phase))
        horizon, history = context.spec.horizon, context.history
        decision = expand(context.journal, horizon, history, context.training.rolled_back, phase)
        if decision.ends_run:
            return decision
        phase = decision.phase


def publish_report(context: RunContext, root: Path) -> Report:
    """Write the report to `root` and to the tracker."""
    report = build.build(context.store, context.run, root)
    with store_errors(root):
        build.write(report, root)
    for name in ("report.json", "report.html", "curve.png"):
        context.tracker.artifact(root / name)
    context.tracker.describe(run_description(report))
    return report
