"""Jobs that record everything a run's store holds: metrics by iteration, and episodes.

The tracking server may have been down, or the recording process killed. So a tracker that is opened
again sends all of this; recording is idempotent. Durations are missing, since the store holds no
times of an iteration.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TypeVar

from pydantic import BaseModel

from agentrl_components.errors import StoreError
from agentrl_components.evaluation.summary import HeldoutResult
from agentrl_components.schedule.record import IterationRecord
from agentrl_components.storage import keys
from agentrl_components.storage.records import load_record
from agentrl_components.storage.store import Store
from agentrl_components.tracking.send_queue import Episodes, Job, Metrics
from agentrl_components.trajectory import codec

Read = TypeVar("Read", bound=BaseModel)

MAX_EPISODE_BATCHES = 8
"""At most this many evaluations, and as many phases, of which episodes are sent."""


def backfill_jobs(store: Store, time_ms: int) -> Iterator[Job]:
    """Jobs for everything in `store`: all metrics as one job, then episodes.

    Skips records that are damaged (the report names them) or concurrently deleted.

    Raises:
        StoreError: the store cannot be read.
    """
    values: defaultdict[int, dict[str, float]] = defaultdict(dict)
    for key in list(store.list(keys.ITERATIONS)):
        if (one := _read_valid(store, key, IterationRecord)) is not None:
            values[one.iteration + 1] |= iteration_metrics(one)
    done = max(values, default=0)
    names: list[tuple[bool, int, str]] = []
    # In the order of names, so that of two evaluations after an iteration that of the weights which
    # a rollback restored is the last, as in a run that is not interrupted.
    for key in sorted(store.list(keys.EVALUATIONS), key=keys.evaluation_name):
        name = keys.evaluation_name(key)
        if (
            key != keys.evaluation(name)
            or (found := _read_valid(store, key, HeldoutResult)) is None
        ):
            continue
        at, metrics = evaluation_metrics(found, done)
        values[at] |= metrics
        names.append((keys.evaluation_number(name) < 0, at, name))
    if values:
        yield Metrics(iterations={at: (time_ms, metrics) for at, metrics in values.items()})
    # before, after and random have no number and sort last
    kept = [
        (at, title(name), keys.episodes(name))
        for _, at, name in sorted(names)[-MAX_EPISODE_BATCHES:]
    ]
    for key in [key for key in store.list(keys.PHASES) if key.endswith(keys.PLAYED)][
        -MAX_EPISODE_BATCHES:
    ]:
        kept.append((-1, "train", key))
    for at, name, key in kept:
        try:
            episodes = tuple(codec.decode(store.get(key), key))
        except StoreError:
            continue
        if episodes:
            at = episodes[0].iteration + 1 if at < 0 else at
            yield Episodes(iteration=at, name=name, time_ms=time_ms, episodes=episodes)


def iteration_metrics(one: IterationRecord) -> dict[str, float]:
    """The metrics of an iteration as they are recorded in the tracker."""
    values = {name: value for name, value in one.metrics.items() if value is not None}
    return values | horizon_metrics(one.phase, one.max_turns)


def horizon_metrics(phase: int, max_turns: int) -> dict[str, float]:
    """The position in the horizon schedule as metrics."""
    return {"horizon/max_turns": float(max_turns), "horizon/phase": float(phase)}


def evaluation_metrics(found: HeldoutResult, done: int) -> tuple[int, dict[str, float]]:
    """The iteration and the metrics of an evaluation as they are recorded in the tracker. `done`:
    the iterations completed before the evaluation named "after". If an environment was down, only
    the metrics of the others are returned, because the mean is not comparable."""
    if found.name == "random":
        return 0, {"heldout/random": found.success}
    number = keys.evaluation_number(found.name)
    if number < 0:
        number = 0 if found.name == "before" else done
    by_environment = {
        f"heldout/{name}/success": e.success for name, e in found.environments.items()
    }
    overall = {"heldout/success": found.success, "heldout/wellformed": found.wellformed}
    return number, by_environment if found.missing else overall | by_environment


def title(name: str) -> str:
    """The tracker's name for the episodes of an evaluation."""
    return f"heldout {name}"


def _read_valid(store: Store, key: str, kind: type[Read]) -> Read | None:
    try:
        return load_record(store, key, kind)
    except StoreError:
        return None
