"""What a run's store can tell a tracker again: metrics by iteration, and episodes for people.

A tracker may have been down, or the process that told it killed, so whoever opens one again tells
it all of this. Recording the same thing twice changes nothing. Seconds are not among it: the store
holds no clock readings of an iteration.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TypeVar

from pydantic import BaseModel

from agentrl_components.errors import StoreError
from agentrl_components.evaluation.summary import Evaluated
from agentrl_components.schedule.record import IterationRecord
from agentrl_components.storage import keys
from agentrl_components.storage.records import checked
from agentrl_components.storage.store import Store
from agentrl_components.tracking.send_queue import Episodes, Job, Metrics
from agentrl_components.trajectory import codec

Read = TypeVar("Read", bound=BaseModel)

SHOWN = 8
"""Evaluations, and phases, of which episodes are told again, at most."""


def past(store: Store, time_ms: int) -> Iterator[Job]:
    """Jobs for all that `store` holds: the metrics as one, then episodes, the most telling first.
    What is damaged, or removed meanwhile, is left out: the report names it. Raises `StoreError`
    where the store cannot be read at all."""
    values: defaultdict[int, dict[str, float]] = defaultdict(dict)
    for key in list(store.list(keys.ITERATIONS)):
        if (one := _read(store, key, IterationRecord)) is not None:
            values[one.iteration + 1] |= iterated(one)
    done = max(values, default=0)
    names: list[tuple[bool, int, str]] = []
    for key in list(store.list(keys.EVALUATIONS)):
        name = key.removeprefix(keys.EVALUATIONS).removesuffix(".json")
        if key != keys.evaluation(name) or (found := _read(store, key, Evaluated)) is None:
            continue
        at, metrics = evaluated(found, done)
        values[at] |= metrics
        names.append((keys.evaluation_number(name) < 0, at, name))
    if values:
        yield Metrics(iterations={at: (time_ms, told) for at, told in values.items()})
    # before, after and random have no number: they are the last of these, after the newest
    kept = [(at, title(name), keys.episodes(name)) for _, at, name in sorted(names)[-SHOWN:]]
    for key in [key for key in store.list(keys.PHASES) if key.endswith(keys.PLAYED)][-SHOWN:]:
        kept.append((-1, "train", key))
    for at, name, key in kept:
        try:
            episodes = tuple(codec.decode(store.get(key), key))
        except StoreError:
            continue
        if episodes:
            at = episodes[0].iteration + 1 if at < 0 else at
            yield Episodes(iteration=at, name=name, time_ms=time_ms, episodes=episodes)


def iterated(one: IterationRecord) -> dict[str, float]:
    """An iteration's metrics as a tracker shows them."""
    told = {name: value for name, value in one.metrics.items() if value is not None}
    return told | horizon(one.phase, one.max_turns)


def horizon(phase: int, max_turns: int) -> dict[str, float]:
    """Where in the schedule an iteration was, as metrics."""
    return {"horizon/max_turns": float(max_turns), "horizon/phase": float(phase)}


def evaluated(found: Evaluated, done: int) -> tuple[int, dict[str, float]]:
    """An evaluation's iteration and its metrics as a tracker shows them; `done` iterations were
    done at the one that is called "after"."""
    if found.name == "random":
        return 0, {"heldout/random": found.success}
    number = keys.evaluation_number(found.name)
    if number < 0:
        number = 0 if found.name == "before" else done
    return number, {"heldout/success": found.success, "heldout/wellformed": found.wellformed}


def title(name: str) -> str:
    """What a tracker calls the episodes of an evaluation."""
    return f"heldout {name}"


def _read(store: Store, key: str, kind: type[Read]) -> Read | None:
    try:
        return checked(store, key, kind)
    except StoreError:
        return None
