"""AgentRL's workers and learner for the model of a benchmark."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentrl_components.run.worker_group import WorkerGroup
from agentrl_components.spec import RunSpec
from agentrl_components.update.learner import Learner
from agentrl_components.workers.pool import WorkerPool
from agentrl_components.workers.trainers import PoolTrainers


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Running workers and their learner."""

    pool: WorkerPool
    learner: Learner


@contextmanager
def opened(folder: Path, count: int, **parts: dict[str, Any]) -> Iterator[Workers]:
    """Start `count` worker processes of one thread each; a single worker runs in this process.

    `parts` are sections of a manifest's spec that are added to the required ones.
    """
    spec = RunSpec.model_validate(
        {
            "model": {"source": f"file://{folder}", "context": 4096, "template": "chat"},
            # The spec requires an environment; the benchmarks bring their own episodes.
            "environments": [{"name": "babyai", "builtin": "babyai"}],
            "horizon": {"phases": [{"maxTurns": 1, "iterations": 1}]},
            "compute": {"workers": count},
            **parts,
        }
    )
    with (
        tempfile.TemporaryDirectory(prefix="agentrl-bench-") as scratch,
        WorkerGroup(spec, Path(scratch), note=print) as crew,
    ):
        trainers = PoolTrainers(spec, crew.lead, crew.pool)
        yield Workers(pool=crew.pool, learner=Learner(spec, trainers))
