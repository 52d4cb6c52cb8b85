"""The context of a stage's process: its arguments, and the run opened for work.

Imports only what every stage needs, so that stages without a model do not load torch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agentrl_components.run.progress import ProgressView
from agentrl_components.schedule.decision import decide
from agentrl_components.schedule.record import Decision
from agentrl_components.spec import AgentRLRun, flatten
from agentrl_components.storage.open import open_store
from agentrl_components.storage.store import Store
from agentrl_components.workers.imports import collection_disabled
from agentrl_pipelines.stages.artifacts import Artifacts

if TYPE_CHECKING:
    from agentrl_components.run.context import RunContext
    from agentrl_components.tracking.tracker import Tracker

MLFLOW_STATUS = {"finish": "FINISHED", "stop": "FAILED"}
"""Final status of the MLflow run, by the decision that ends a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageContext:
    """The arguments of a stage's process."""

    run: AgentRLRun
    """The manifest, resolved for the cluster."""
    phase: int
    """Index of the phase, from 0."""
    attempt: int
    """How often the phase was restarted."""
    scratch: Path
    """A folder that does not outlive the pod."""
    artifacts: Artifacts
    view: ProgressView
    started: float = field(default_factory=time.monotonic)
    """Start of the process: seconds of the monotonic clock."""

    def store(self) -> Store:
        """The store of the run."""
        return open_store(self.run.spec.storage, self.scratch / "store")


@contextmanager
def open_run_context(
    stage: StageContext,
    tracker: Tracker | None = None,
    *,
    learns: bool = True,
    ends_run: bool = False,
) -> Iterator[RunContext]:
    """Open the run for work.

    `learns`: this process updates the model. `ends_run`: this is the last process that records in
    the run's MLflow run; if the current decision ends the run, the MLflow run is terminated."""
    run, store = stage.run, stage.store()
    recorder, status = tracker or open_stage_tracker(stage, store), "RUNNING"
    with ExitStack() as stack:
        stack.callback(lambda: close_tracker(recorder, status, stage.view))
        # Imported after MLflow's process was started: both imports take about the same time.
        with collection_disabled():
            from agentrl_components.run.context import RunContext
            from agentrl_components.workers.local import start_workers_early

        # Workers are forked while this process has one thread; `params` starts another.
        pending = start_workers_early(run.spec.compute)
        if pending is not None:
            stack.callback(pending.close)
        recorder.params(flatten(run))
        context = RunContext(
            run, store, recorder, stage.view, lambda: None, learns=learns, pending=pending
        )
        with context:
            stage.view.note(f"ready after {time.monotonic() - stage.started:.1f} s")
            yield context
            if ends_run:
                status = MLFLOW_STATUS.get(current_decision(context).action, status)


def open_stage_tracker(stage: StageContext, store: Store) -> Tracker:
    """The MLflow tracker, with its process started; a silent tracker if no server is set."""
    if stage.run.spec.tracking.uri is None:
        from agentrl_components.tracking.tracker import SilentTracker

        return SilentTracker()
    from agentrl_pipelines.tracking import open_tracker

    tracker = open_tracker(stage.run, stage.scratch, store, stage.view.note)
    tracker.prepare()
    return tracker


def close_tracker(tracker: Tracker, status: str, view: ProgressView) -> None:
    """Send what is queued, and report what could not be sent."""
    for line in tracker.close(status):
        view.note(f"tracking: {line}")


def current_decision(context: RunContext) -> Decision:
    """The decision after the last iteration."""
    return decide(context.spec.horizon, context.history, context.training.rolled_back)
