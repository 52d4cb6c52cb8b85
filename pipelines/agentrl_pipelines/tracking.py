"""Open the MLflow tracker of a run, and fetch the model that is registered there."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from uuid import uuid4

from agentrl_components.evaluation.best_checkpoint import best_number
from agentrl_components.schedule.record import IterationRecord
from agentrl_components.spec import AgentRLRun, RunSpec
from agentrl_components.storage import checkpoint, keys
from agentrl_components.storage.records import read_tracker
from agentrl_components.storage.store import Store
from agentrl_components.tracking.backfill import backfill_jobs
from agentrl_components.tracking.mlflow.tracker import MlflowTracker


def open_tracker(
    run: AgentRLRun, root: Path, store: Store, note: Callable[[str], None]
) -> MlflowTracker:
    """The MLflow tracker of `run`, which resumes the MLflow run recorded in `store`.

    What the store holds and the MLflow run lacks is sent again. If the manifest names no server,
    the MLflow database is in `root`. `note` is called with a line for people when something cannot
    be recorded, also by another thread."""

    def uid() -> str:
        # Stored first: the process may be killed after the MLflow run was created, and before its
        # id is known here. The next one would create another run, and this one would never end.
        known = read_tracker(store).uid
        if known is not None:
            return known
        new = uuid4().hex
        store.replace(keys.TRACKER, json.dumps({"uid": new}).encode())
        return new

    def save_run_id(run_id: str) -> None:
        record = {"run_id": run_id, "uri": tracking.uri}
        store.replace(keys.TRACKER, json.dumps(record).encode())

    tracking = run.spec.tracking
    return MlflowTracker(
        root,
        uri=tracking.uri,
        experiment=tracking.experiment,
        run_name=run.metadata.name,
        run_id=read_tracker(store).run_id,
        uid=uid,
        on_run_id=save_run_id,
        backfill=partial(backfill_jobs, store),
        note=lambda text: note(f"tracking: {text}"),
    )


def best_model(store: Store, spec: RunSpec, history: Sequence[IterationRecord], root: Path) -> Path:
    """Fetch the model of the best checkpoint into `root/model`, and return that folder."""
    folder = root / "model"
    checkpoint.fetch(store, best_number(store, history, spec.horizon.window), folder)
    return folder
