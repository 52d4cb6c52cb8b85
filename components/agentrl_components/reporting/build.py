"""Build the report of a run from its store.

    report = build(store, run)
    write(report, root)         # report.json, report.html, curve.png

A report can be built at any time, also of a run in progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from agentrl_components.evaluation.best_checkpoint import best_number
from agentrl_components.evaluation.heldout import RANDOM
from agentrl_components.evaluation.summary import HeldoutResult
from agentrl_components.reporting.read import read
from agentrl_components.reporting.schema import (
    AlarmSummary,
    CheckpointSummary,
    EnvironmentSummary,
    EpisodePair,
    Heldout,
    IntermediateEvaluation,
    MlflowLink,
    PhaseSummary,
    Report,
)
from agentrl_components.reporting.transcript import Replay
from agentrl_components.schedule.record import IterationRecord
from agentrl_components.spec import AgentRLRun, RunSpec, dump
from agentrl_components.spec.turn_limits import all_turn_limits, turn_limits
from agentrl_components.storage import checkpoint, keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.storage.records import RunState, TrackerRecord
from agentrl_components.storage.store import Store
from agentrl_components.tracking.mlflow.messages import DATABASE, database_uri

__all__ = ["Report", "build", "database", "write"]

EDGE_ITERATIONS = 5
"""At most this many iterations are averaged for a phase's success at its start and end."""


def build(
    store: Store,
    run: AgentRLRun,
    root: Path | None = None,
    final: Mapping[str, object] | None = None,
) -> Report:
    """The report of the run in `store`.

    Args:
        root: the folder of a local run; without a tracking URI it holds MLflow's database.
        final: fields of the run's state that a later stage will write, for its last report.

    Raises:
        StoreError: a record is damaged; the message names its key.
    """
    spec = run.spec
    records = read(store)
    state = records.state.model_copy(update=final)
    steps = tuple(records.iterations)
    found = records.evaluations
    return Report(
        name=run.metadata.name,
        status=state.status,
        message=state.message,
        model=spec.model.source,
        algorithm=spec.algorithm.name,
        warm_start=spec.warm_start.algorithm if spec.warm_start else None,
        environments=tuple(environment.name for environment in spec.environments),
        actions=spec.rollout.actions,
        seed=spec.seed,
        manifest=dump(run),
        heldout=Heldout(
            random=found.get(RANDOM),
            before=found.get(keys.BEFORE),
            after=found.get(records.final),
        ),
        phases=_phases(spec, steps, state),
        by_environment=_by_environment(tuple(each.name for each in spec.environments), steps),
        wall_seconds=state.wall_seconds,
        alarms=_alarms(steps),
        checkpoints=_checkpoints(store, steps, spec.horizon.window),
        mlflow=_mlflow(run, records.tracked, root, succeeded=state.status == "succeeded"),
        training=steps,
        evaluations=_intermediate(found),
        episodes=_pairs(records.before, records.after),
    )


def write(report: Report, root: Path) -> None:
    """Write report.json, report.html and curve.png to `root`, each atomically.

    Raises:
        StoreError: the folder cannot be written to.
    """
    from agentrl_components.reporting import html, plot

    # The run and an `agentrl report` may write at the same time: replace whole files.
    folder = DirectoryStore(root, durable=False)
    figure = plot.draw(report)
    folder.replace("curve.png", plot.png(figure))
    folder.replace("report.html", html.html(report, plot.svg(figure)).encode())
    folder.replace("report.json", (report.model_dump_json(indent=1) + "\n").encode())


def _intermediate(found: Mapping[str, HeldoutResult]) -> tuple[IntermediateEvaluation, ...]:
    # That of weights which a rollback restored sorts after that of the discarded ones.
    numbered = sorted((keys.evaluation_number(name), name) for name in found)
    return tuple(
        IntermediateEvaluation(iterations=number, found=found[name])
        for number, name in numbered
        if number >= 0
    )


def _phases(
    spec: RunSpec, steps: Sequence[IterationRecord], state: RunState
) -> tuple[PhaseSummary, ...]:
    current = steps[-1].phase if steps else 0
    summaries = []
    for number, phase in enumerate(spec.horizon.phases):
        done = [one for one in steps if one.phase == number]
        success = [s.success for s in done if s.metrics.get("train/success") is not None]
        summaries.append(
            PhaseSummary(
                phase=number,
                horizon=phase.max_turns,
                turn_limits=all_turn_limits(spec, number) if turn_limits(spec, number) else {},
                iterations=len(done),
                planned=phase.iterations,
                success_first=fmean(success[:EDGE_ITERATIONS]) if success else None,
                success_last=fmean(success[-EDGE_ITERATIONS:]) if success else None,
                ended=_ended(done, number, current, state),
            )
        )
    return tuple(summaries)


def _by_environment(
    names: Sequence[str], steps: Sequence[IterationRecord]
) -> tuple[EnvironmentSummary, ...]:
    summaries = []
    for name in names if len(names) > 1 else ():
        success = [
            s for step in steps if (s := step.metrics.get(f"train/{name}/success")) is not None
        ]
        turns = [t for step in steps if (t := step.metrics.get(f"train/{name}/max_turns"))]
        summaries.append(
            EnvironmentSummary(
                name=name,
                success_first=fmean(success[:EDGE_ITERATIONS]) if success else None,
                success_last=fmean(success[-EDGE_ITERATIONS:]) if success else None,
                max_turns=int(turns[-1]) if turns else None,
                down=sum(step.metrics.get(f"train/{name}/episodes") == 0 for step in steps),
            )
        )
    return tuple(summaries)


def _ended(done: Sequence[IterationRecord], phase: int, current: int, state: RunState) -> str:
    if not done:
        return "not started" if phase > current or state.status == "running" else "not played"
    decision = done[-1].decision
    if decision is not None and (phase < current or decision.action in ("finish", "stop")):
        return decision.reason
    return "completed" if phase < current else state.status


def _alarms(steps: Iterable[IterationRecord]) -> tuple[AlarmSummary, ...]:
    summaries: list[AlarmSummary] = []
    # The index of the last summary of each alarm, signal and action: a warning and an action on the
    # same signal are two alarms.
    latest: dict[tuple[int, str, str], int] = {}
    for one in steps:
        completed = one.iteration + 1
        for alarm in one.decision.alarms if one.decision else ():
            kind = (alarm.alarm, alarm.signal, alarm.action)
            index = latest.get(kind)
            if index is not None and summaries[index].last == completed - 1:
                summaries[index] = summaries[index].model_copy(update={"last": completed})
                continue
            latest[kind] = len(summaries)
            fields = alarm.model_dump(include={"signal", "action", "message"})
            summaries.append(AlarmSummary(first=completed, last=completed, **fields))
    return tuple(summaries)


def _checkpoints(
    store: Store, steps: Sequence[IterationRecord], window: int
) -> tuple[CheckpointSummary, ...]:
    available = checkpoint.complete(store)
    best = best_number(store, steps, window)
    return tuple(
        CheckpointSummary(
            iteration=number,
            key=keys.checkpoint(number),
            url=f"{store.url.rstrip('/')}/{keys.checkpoint(number)}",
            best=number == best,
            last=number == available[-1],
        )
        for number in available
    )


def database(root: Path) -> str | None:
    """The tracking URI of the MLflow database in a run's folder. None: there is none."""
    return database_uri(root) if (root / DATABASE).exists() else None


def _mlflow(
    run: AgentRLRun, tracked: TrackerRecord, root: Path | None, *, succeeded: bool
) -> MlflowLink:
    tracking = run.spec.tracking
    uri = tracking.uri or tracked.uri
    if uri is None and root is not None:
        uri = database(root)
    return MlflowLink(
        uri=uri,
        experiment=tracking.experiment,
        run_id=tracked.run_id,
        registered=tracking.register_as if succeeded else None,
    )


def _pairs(before: Sequence[Replay], after: Sequence[Replay]) -> tuple[EpisodePair, ...]:
    """One pair per task of which an episode was stored, in order of play."""
    first, second = ({one.task: one for one in some} for some in (before, after))
    pairs = []
    for task in {**first, **second}:
        known = first.get(task) or second[task]
        category = f"{known.environment}/{known.category}"
        pair = EpisodePair(
            task=task, category=category, before=first.get(task), after=second.get(task)
        )
        pairs.append(pair)
    return tuple(pairs)
