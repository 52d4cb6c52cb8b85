"""The tracker of a run, opened on what it recorded before, and the model registered there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from agentrl_components.schedule.history import IterationRecord, best_checkpoint
from agentrl_components.spec import AgentRLRun, RunSpec
from agentrl_components.storage import checkpoint, keys
from agentrl_components.storage.records import read_tracked
from agentrl_components.storage.store import Store
from agentrl_components.tracking.backfill import past
from agentrl_components.tracking.mlflow.tracker import MlflowTracker


def open_tracker(run: AgentRLRun, root: Path, store: Store) -> MlflowTracker:
    """MLflow, on the run it recorded before, if it did; what `store` holds that it does not show it
    is told. Where the manifest names no server, its database is in `root`."""

    def remember(run_id: str) -> None:
        store.replace(keys.TRACKER, json.dumps({"run_id": run_id}).encode())

    tracking = run.spec.tracking
    return MlflowTracker(
        root,
        uri=tracking.uri,
        experiment=tracking.experiment,
        run_name=run.metadata.name,
        run_id=read_tracked(store).run_id,
        on_run=remember,
        past=partial(past, store),
    )


def best_model(store: Store, spec: RunSpec, history: Sequence[IterationRecord], root: Path) -> Path:
    """The best checkpoint's model folder, in `root`."""
    best = best_checkpoint(history, spec.horizon.window)
    folder = root / "model"
    checkpoint.fetch(store, best.iteration + 1 if best is not None else 0, folder)
    return folder
