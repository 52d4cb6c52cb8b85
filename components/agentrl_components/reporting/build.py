"""What a run has come to, read from its store: the numbers, the curve, and a page to read.

    report = build(store, run)
    write(report, root)         # report.json, report.html, plot.png

A report can be made at any moment; of a run that is under way it tells what there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from statistics import fmean

from agentrl_components.evaluation.summary import Evaluated
from agentrl_components.reporting.read import read
from agentrl_components.reporting.schema import (
    Alarmed,
    Between,
    Heldout,
    Kept,
    Mlflow,
    Pair,
    PhaseTold,
    Report,
)
from agentrl_components.reporting.transcript import Replay
from agentrl_components.schedule.history import best_checkpoint
from agentrl_components.schedule.record import IterationRecord
from agentrl_components.spec import AgentRLRun, Horizon
from agentrl_components.storage import checkpoint, keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.storage.records import State, Tracked
from agentrl_components.storage.store import Store
from agentrl_components.tracking.mlflow.messages import DATABASE, database_uri

__all__ = ["Report", "build", "database", "write"]

ENDS = 5
"""Iterations that a phase's success at its start and at its end is averaged over, at most."""


def build(store: Store, run: AgentRLRun, root: Path | None = None) -> Report:
    """The report of the run in `store`.

    `root` is the run's folder, where MLflow's database is unless the manifest says otherwise.
    Raises `StoreError`, which names the key, where something in the store is damaged."""
    spec = run.spec
    records = read(store)
    steps = tuple(_finite(record) for record in records.iterations)
    found = records.evaluations
    return Report(
        name=run.metadata.name,
        status=records.state.status,
        message=records.state.message,
        model=spec.model.source,
        algorithm=spec.algorithm.name,
        warm_start=spec.warm_start.algorithm if spec.warm_start else None,
        environments=tuple(environment.name for environment in spec.environments),
        actions=spec.rollout.actions,
        seed=spec.seed,
        heldout=Heldout(**{name: found.get(name) for name in Heldout.model_fields}),
        phases=_phases(spec.horizon, records.iterations, steps, records.state),
        wall_seconds=records.state.wall_seconds,
        alarms=_alarms(records.iterations),
        checkpoints=_checkpoints(store, steps, found, spec.horizon.window),
        mlflow=_mlflow(run, records.tracked, root),
        training=steps,
        evaluations=_between(found),
        episodes=_pairs(records.before, records.after),
    )


def write(report: Report, root: Path) -> None:
    """Leave report.json, report.html and plot.png in `root`, each whole or not at all. Raises
    `StoreError` where the folder cannot be written to."""
    from agentrl_components.reporting import html, plot

    # A run that ends, and whoever asks for its report meanwhile, write at once.
    folder = DirectoryStore(root, durable=False)
    figure = plot.draw(report)
    folder.replace("curve.png", plot.png(figure))
    folder.replace("report.html", html.html(report, plot.svg(figure)).encode())
    folder.replace("report.json", (report.model_dump_json(indent=1) + "\n").encode())


def _finite(record: IterationRecord) -> IterationRecord:
    """The record without metrics that are not finite: they cannot be drawn."""
    finite = {
        name: value if value is not None and isfinite(value) else None
        for name, value in record.metrics.items()
    }
    return record.model_copy(update={"metrics": finite})


def _between(found: Mapping[str, Evaluated]) -> tuple[Between, ...]:
    numbered = {keys.evaluation_number(name): one for name, one in found.items()}
    return tuple(
        Between(iterations=number, found=numbered[number])
        for number in sorted(number for number in numbered if number >= 0)
    )


def _phases(
    horizon: Horizon,
    iterations: Sequence[IterationRecord],
    steps: Sequence[IterationRecord],
    state: State,
) -> tuple[PhaseTold, ...]:
    current = iterations[-1].phase if iterations else 0
    told = []
    for number, phase in enumerate(horizon.phases):
        done = [one for one in iterations if one.phase == number]
        success = [
            s.success
            for s in steps
            if s.phase == number and s.metrics.get("train/success") is not None
        ]
        told.append(
            PhaseTold(
                phase=number,
                horizon=phase.max_turns,
                iterations=len(done),
                planned=phase.iterations,
                success_first=fmean(success[:ENDS]) if success else None,
                success_last=fmean(success[-ENDS:]) if success else None,
                ended=_ended(done, number, current, state),
            )
        )
    return tuple(told)


def _ended(done: Sequence[IterationRecord], phase: int, current: int, state: State) -> str:
    if not done:
        return "not begun" if phase > current or state.status == "running" else "not played"
    decision = done[-1].decision
    if decision is not None and (phase < current or decision.action in ("finish", "stop")):
        return decision.reason
    return "is over" if phase < current else state.status


def _alarms(iterations: Iterable[IterationRecord]) -> tuple[Alarmed, ...]:
    rang: list[Alarmed] = []
    for one in iterations:
        for ring in one.decision.alarms if one.decision else ():
            latest = next((a for a in reversed(rang) if a.signal == ring.signal), None)
            if latest and latest.last == one.iteration - 1 and latest.action == ring.action:
                rang[rang.index(latest)] = latest.model_copy(update={"last": one.iteration})
                continue
            fields = ring.model_dump(include={"signal", "action", "message"})
            rang.append(Alarmed(first=one.iteration, last=one.iteration, **fields))
    return tuple(rang)


def _checkpoints(
    store: Store, steps: Sequence[IterationRecord], found: Mapping[str, Evaluated], window: int
) -> tuple[Kept, ...]:
    there = checkpoint.complete(store)
    records = []
    for step in steps:
        done = step.iteration + 1
        name = "after" if step is steps[-1] and "after" in found else keys.evaluation_after(done)
        heldout = found.get(name)
        records.append(
            step.model_copy(
                update={
                    "heldout": heldout.success if heldout else None,
                    "checkpointed": done in there,
                }
            )
        )
    best = best_checkpoint(records, window)
    best_number = there[-1] if best is None and there else best.iteration + 1 if best else -1
    return tuple(
        Kept(
            iteration=number,
            key=keys.checkpoint(number),
            url=f"{store.url.rstrip('/')}/{keys.checkpoint(number)}",
            best=number == best_number,
            last=number == there[-1],
        )
        for number in there
    )


def database(root: Path) -> str | None:
    """The tracking URI of MLflow's database in a run's folder. None: nothing made one."""
    return database_uri(root) if (root / DATABASE).exists() else None


def _mlflow(run: AgentRLRun, tracked: Tracked, root: Path | None) -> Mlflow:
    uri = run.spec.tracking.uri or tracked.uri
    if uri is None and root is not None:
        uri = database(root)
    return Mlflow(uri=uri, experiment=run.spec.tracking.experiment, run_id=tracked.run_id)


def _pairs(before: Sequence[Replay], after: Sequence[Replay]) -> tuple[Pair, ...]:
    """The tasks that were kept, in the order they were played."""
    first, second = ({one.task: one for one in some} for some in (before, after))
    pairs = []
    for task in {**first, **second}:
        known = first.get(task) or second[task]
        category = f"{known.environment}/{known.category}"
        pair = Pair(task=task, category=category, before=first.get(task), after=second.get(task))
        pairs.append(pair)
    return tuple(pairs)
