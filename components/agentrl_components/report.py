"""What a run has come to, read from its store: the numbers, the curve, and a page to read.

    report = build(store, run)
    write(report, root)         # report.json, report.html, curve.png

A report can be made at any moment; of a run that is under way it tells what there is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from agentrl_components import checkpoint, layout
from agentrl_components.errors import StoreError
from agentrl_components.evaluation import Evaluated
from agentrl_components.history import IterationRecord, best_checkpoint
from agentrl_components.replay import Replay, replay
from agentrl_components.spec import AgentRLRun
from agentrl_components.store import Store
from agentrl_components.trajectory_codec import decode

ENDS = 5
"""Iterations that a phase's success at its start and at its end is averaged over, at most."""

Read = TypeVar("Read", bound=BaseModel)


class Told(BaseModel):
    """A part of the report."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Stored(BaseModel):
    """A part of the store that the report reads; what else is in it does not matter here."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class State(Stored):
    """Where the run is."""

    status: str = "unknown"
    message: str = ""
    wall_seconds: dict[str, float] = {}


class RingStored(Stored):
    """An alarm that rang, as an iteration keeps it."""

    signal: str
    action: str
    message: str


class DecisionStored(Stored):
    """What was decided after an iteration."""

    action: str
    reason: str
    rings: tuple[RingStored, ...] = ()


class IterationStored(Stored):
    """One iteration."""

    iteration: int
    phase: int
    max_turns: int
    metrics: dict[str, float | None]
    decision: DecisionStored | None = None


class Heldout(Told):
    """Held-out success. None: not evaluated (yet)."""

    random: Evaluated | None = None
    """The random policy over admissible actions."""
    before: Evaluated | None = None
    """Before reinforcement learning, after the warm start."""
    after: Evaluated | None = None
    """At the end."""


class Step(Told):
    """One iteration of training. None: not measured."""

    iteration: int
    phase: int
    max_turns: int
    success: float | None
    score: float | None
    turns: float | None
    capped: float | None
    wellformed: float | None
    entropy: float | None


class Between(Told):
    """An evaluation while training went on."""

    iterations: int
    """Iterations that were done."""
    found: Evaluated


class PhaseTold(Told):
    """One phase of the horizon schedule."""

    phase: int
    """From 0."""
    horizon: int
    """Turns an episode might take."""
    iterations: int
    """Done."""
    planned: int
    """At most."""
    success_first: float | None
    """Mean training success of its first iterations."""
    success_last: float | None
    """Mean training success of its last iterations."""
    ended: str
    """How it ended, for people; where it is, for one that has not."""


class Alarmed(Told):
    """An alarm that rang, at one or several iterations in a row."""

    signal: str
    action: str
    first: int
    last: int
    message: str
    """Of the first time."""


class Kept(Told):
    """A checkpoint."""

    iteration: int
    """Iterations done."""
    key: str
    """In the store."""
    url: str
    best: bool
    last: bool


class Mlflow(Told):
    """Where metrics and episodes are shown."""

    uri: str | None
    """None: not known where."""
    experiment: str
    run_id: str | None = None


class Pair(Told):
    """One held-out task, played before and after."""

    task: str
    category: str
    before: Replay | None
    after: Replay | None


class Report(Told):
    """All there is to tell about a run."""

    name: str
    status: str
    message: str
    model: str
    algorithm: str
    warm_start: str | None
    environments: tuple[str, ...]
    actions: str
    seed: int
    heldout: Heldout
    phases: tuple[PhaseTold, ...]
    wall_seconds: dict[str, float]
    """By stage."""
    alarms: tuple[Alarmed, ...]
    checkpoints: tuple[Kept, ...]
    mlflow: Mlflow
    training: tuple[Step, ...]
    evaluations: tuple[Between, ...]
    """Those between before and after."""
    episodes: tuple[Pair, ...]

    @property
    def headline(self) -> str:
        """The result in one sentence."""
        before, after = self.heldout.before, self.heldout.after
        if before is None and after is None:
            return "Nothing has been evaluated yet."
        if before is None or after is None:
            one = after or before
            assert one is not None
            when = "before training" if after is None else "after training"
            return f"Held-out success is {one.success:.1%} {when}."
        apart = after.low > before.high or before.low > after.high
        word = "rose" if after.success > before.success else "fell"
        told = "went" if not apart else word
        tail = "." if apart else "; the 95 % intervals overlap."
        return f"Held-out success {told} from {before.success:.1%} to {after.success:.1%}{tail}"


def build(store: Store, run: AgentRLRun, root: Path | None = None) -> Report:
    """The report of the run in `store`.

    `root` is the run's folder, where MLflow's database is unless the manifest says otherwise.
    Raises `StoreError`, which names the key, where something in the store is damaged."""
    spec = run.spec
    state = _read(store, layout.STATE, State) or State()
    iterations = _iterations(store)
    steps = tuple(_step(one) for one in iterations)
    found = _evaluations(store)
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
        heldout=Heldout(**{name: found.get(name) for name in Heldout.model_fields}),
        phases=_phases(run, iterations, state),
        wall_seconds=state.wall_seconds,
        alarms=_alarms(iterations),
        checkpoints=_checkpoints(store, steps, found, spec.horizon.window),
        mlflow=_mlflow(store, run, root),
        training=steps,
        evaluations=_between(found),
        episodes=_pairs(store),
    )


def write(report: Report, root: Path) -> None:
    """Leave report.json, report.html and curve.png in `root`, each whole or not at all."""
    from agentrl_components import curve, page

    root.mkdir(parents=True, exist_ok=True)
    figure = curve.draw(report)
    _put(root / "curve.png", curve.png(figure))
    _put(root / "report.html", page.html(report, curve.svg(figure)).encode())
    _put(root / "report.json", (report.model_dump_json(indent=1) + "\n").encode())


def _put(path: Path, data: bytes) -> None:
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(data)
    part.replace(path)


def _read(store: Store, key: str, kind: type[Read]) -> Read | None:
    if not store.exists(key):
        return None
    try:
        return kind.model_validate_json(store.get(key))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise StoreError(f"{key}: in {store.url}: damaged: {place} {first['msg']}") from error


def _iterations(store: Store) -> list[IterationStored]:
    read = (_read(store, key, IterationStored) for key in store.list(layout.ITERATIONS))
    return [one for one in read if one is not None]


def _step(one: IterationStored) -> Step:
    metric = one.metrics.get
    return Step(
        iteration=one.iteration,
        phase=one.phase,
        max_turns=one.max_turns,
        success=metric("train/success"),
        score=metric("train/score"),
        turns=metric("train/turns"),
        capped=metric("train/capped"),
        wellformed=metric("train/wellformed"),
        entropy=metric("update/entropy"),
    )


def _evaluations(store: Store) -> dict[str, Evaluated]:
    found = {}
    for key in store.list(layout.EVALUATIONS):
        name = key.removeprefix(layout.EVALUATIONS).removesuffix(".json")
        if key == layout.evaluation(name) and (one := _read(store, key, Evaluated)) is not None:
            found[name] = one
    return found


def _between(found: dict[str, Evaluated]) -> tuple[Between, ...]:
    numbered = {layout.evaluation_number(name): one for name, one in found.items()}
    return tuple(
        Between(iterations=number, found=numbered[number])
        for number in sorted(number for number in numbered if number >= 0)
    )


def _phases(
    run: AgentRLRun, iterations: Sequence[IterationStored], state: State
) -> tuple[PhaseTold, ...]:
    told = []
    current = iterations[-1].phase if iterations else 0
    for number, phase in enumerate(run.spec.horizon.phases):
        done = [one for one in iterations if one.phase == number]
        success = [s for one in done if (s := one.metrics.get("train/success")) is not None]
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


def _ended(done: Sequence[IterationStored], phase: int, current: int, state: State) -> str:
    if not done:
        return "not begun" if phase > current or state.status == "running" else "not played"
    decision = done[-1].decision
    if decision is not None and (phase < current or decision.action in ("finish", "stop")):
        return decision.reason
    return "is over" if phase < current else state.status


def _alarms(iterations: Iterable[IterationStored]) -> tuple[Alarmed, ...]:
    rang: list[Alarmed] = []
    for one in iterations:
        for ring in one.decision.rings if one.decision else ():
            latest = next((a for a in reversed(rang) if a.signal == ring.signal), None)
            if latest and latest.last == one.iteration - 1 and latest.action == ring.action:
                rang[rang.index(latest)] = latest.model_copy(update={"last": one.iteration})
                continue
            rang.append(
                Alarmed(first=one.iteration, last=one.iteration, **ring.model_dump())
            )
    return tuple(rang)


def _checkpoints(
    store: Store, steps: Sequence[Step], found: dict[str, Evaluated], window: int
) -> tuple[Kept, ...]:
    there = checkpoint.complete(store)
    records = []
    for step in steps:
        done = step.iteration + 1
        heldout = found.get(layout.evaluation_after(done))
        records.append(
            IterationRecord(
                iteration=step.iteration,
                phase=step.phase,
                max_turns=step.max_turns,
                success=step.success or 0.0,
                heldout=heldout.success if heldout else None,
                checkpointed=done in there,
            )
        )
    best = best_checkpoint(records, window)
    best_number = there[-1] if best is None and there else best.iteration + 1 if best else -1
    return tuple(
        Kept(
            iteration=number,
            key=layout.checkpoint(number),
            url=f"{store.url.rstrip('/')}/{layout.checkpoint(number)}",
            best=number == best_number,
            last=number == there[-1],
        )
        for number in there
    )


def _mlflow(store: Store, run: AgentRLRun, root: Path | None) -> Mlflow:
    told: dict[str, Any] = (
        json.loads(store.get(layout.TRACKER)) if store.exists(layout.TRACKER) else {}
    )
    uri = run.spec.tracking.uri or told.get("uri")
    if uri is None and root is not None:
        uri = f"sqlite:///{root.absolute() / 'mlflow.db'}"
    return Mlflow(uri=uri, experiment=run.spec.tracking.experiment, run_id=told.get("run_id"))


def _pairs(store: Store) -> tuple[Pair, ...]:
    """The tasks that were kept, in the order they were played before, then those only after."""
    played = {
        when: {one.task: one for one in map(replay, decode(store.get(key), key))}
        for when in ("before", "after")
        for key in [layout.episodes(when)]
        if store.exists(key)
    }
    before, after = played.get("before", {}), played.get("after", {})
    pairs = []
    for task in {**before, **after}:
        known = before.get(task) or after[task]
        pairs.append(
            Pair(
                task=task,
                category=f"{known.environment}/{known.category}",
                before=before.get(task),
                after=after.get(task),
            )
        )
    return tuple(pairs)
