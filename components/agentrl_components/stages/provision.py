"""provision: wait for the environments, check their contract, and record their fingerprints.

A run has one task set: where the store has results of an earlier start or phase, the environments
must have the tasks that they had there. Evaluations before and after training are compared, and
those that are in the store are not repeated."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence

from pydantic import RootModel

from agentrl_components.errors import SpecError
from agentrl_components.exchange import heartbeat
from agentrl_components.run.journal import Journal
from agentrl_components.spec import AgentRLRun
from agentrl_components.spec.rules.environments.vocabulary import check_words
from agentrl_components.storage import keys
from agentrl_components.storage.records import StoredModel, load_record
from agentrl_components.storage.store import Store
from agentrl_envs.env import Observation
from agentrl_envs.errors import ContractError
from agentrl_envs.world import World

SAMPLE = 8
"""Held-out tasks whose ids identify a task set."""


RESULTS = (keys.CHECKPOINTS, keys.EVALUATIONS, keys.ITERATIONS, keys.TRAJECTORIES)
"""Prefixes of stored results that depend on the tasks. Until one exists the tasks may change, so
that a new environment can be corrected."""
COMPARED = {
    "name": "its name is",
    "train": "the number of its training tasks is",
    "heldout": "the number of its held-out tasks is",
    "tasks": "the hash of its first held-out tasks is",
    "admissible": "whether it names its admissible actions is",
}
"""The fields of a fingerprint that identify a task set. `where` does not: servers may move."""


class EnvironmentFingerprint(StoredModel):
    """What identifies the task set of an environment. A record of another version of AgentRL may
    lack fields."""

    name: str | None = None
    where: str | None = None
    """Name of the built-in environment, image, or URL of its servers."""
    train: int | None = None
    """Number of training tasks. None: unbounded."""
    heldout: int | None = None
    """Number of held-out tasks. None: unbounded."""
    tasks: str | None = None
    """Hash of the ids of the first `SAMPLE` held-out tasks."""
    admissible: bool
    """The environment names its admissible actions."""


class Fingerprints(RootModel[dict[str, EnvironmentFingerprint]]):
    """The fingerprints of all environments, by name."""


async def provision(
    run: AgentRLRun, worlds: Mapping[str, World], journal: Journal, phase: int = 0
) -> None:
    """Store the fingerprint of each environment, before the other stages of an attempt start.
    Raises `ContractError` if an environment breaks the contract, and `SpecError` if its tasks are
    not those that the run has had so far."""
    fingerprints = await environment_fingerprints(run, worlds)
    journal.check(run)
    check_fingerprints(run, journal.store, fingerprints)
    journal.begin(run)
    heartbeat.forget(journal.store)
    journal.write_state("running", "the environments are ready")
    data = fingerprints.model_dump_json(indent=1).encode()
    journal.store.replace(keys.phase(phase, keys.FINGERPRINTS), data)


def check_fingerprints(run: AgentRLRun, store: Store, fingerprints: Fingerprints) -> None:
    """Raise `SpecError` with every environment whose fingerprint differs from the one that an
    earlier start or phase of the run recorded, if there are results that depend on it."""
    recorded = [key for key in store.list(keys.PHASES) if key.endswith(f"/{keys.FINGERPRINTS}")]
    if not recorded or not any(key for prefix in RESULTS for key in store.list(prefix)):
        return
    before = load_record(store, recorded[-1], Fingerprints).root
    mistakes = [
        f"spec.environments[{i}] ({one.name}): {'; '.join(changed)}: {store.url} holds a run with "
        "other tasks, whose results cannot be compared with these; restore the version and the "
        "data of the environment, or start a new run (on one machine: use another --root)"
        for i, one in enumerate(run.spec.environments)
        if one.name in before
        and (changed := list(_changes(before[one.name], fingerprints.root[one.name])))
    ]
    if mistakes:
        raise SpecError(mistakes)


def _changes(before: EnvironmentFingerprint, now: EnvironmentFingerprint) -> Iterator[str]:
    """What differs between two fingerprints, in words."""
    for field, words in COMPARED.items():
        old, new = getattr(before, field), getattr(now, field)
        if field in before.model_fields_set and old != new:
            yield f"{words} {_shown(new)}, not {_shown(old)}"


def _shown(value: object) -> str:
    return "unbounded" if value is None else json.dumps(value)


async def environment_fingerprints(run: AgentRLRun, worlds: Mapping[str, World]) -> Fingerprints:
    """The number of tasks of each environment and a hash that identifies them. Raises `SpecError`
    for an environment that does not name admissible actions although the manifest needs them, or no
    words although the model is tiny."""
    vocabularies = {name: world.vocabulary() for name, world in worlds.items()}
    check_words(run.spec, vocabularies)
    fingerprints: dict[str, EnvironmentFingerprint] = {}
    for i, environment in enumerate(run.spec.environments):
        world = worlds[environment.name]
        seen = await first_observation(world)
        if seen.admissible is None and run.spec.rollout.actions == "admissible":
            raise SpecError(
                [
                    f"spec.rollout.actions: spec.environments[{i}] ({environment.name}) does "
                    "not name its admissible actions; set it to free"
                ]
            )
        if run.spec.model.source == "tiny":
            words = vocabularies[environment.name] or ()
            check_actions(environment.name, seen.admissible or (), words)
        tasks = [await world.task("heldout", i) for i in range(SAMPLE)]
        fingerprints[environment.name] = EnvironmentFingerprint(
            name=world.name,
            where=environment.builtin or environment.image or str(environment.url),
            train=world.size("train"),
            heldout=world.size("heldout"),
            tasks=hashlib.sha256("".join(t.id for t in tasks).encode()).hexdigest()[:16],
            admissible=seen.admissible is not None,
        )
    return Fingerprints(fingerprints)


def check_actions(name: str, actions: Sequence[str], words: Sequence[str]) -> None:
    """Raise `ContractError` if a model that knows `words` cannot tell `actions` apart."""
    known, first = set(words), dict[tuple[str, ...], str]()
    for action in actions:
        unknown = [word for word in action.split() if word not in known]
        if unknown:
            raise ContractError(
                f"environment {name}: vocabulary() lacks {unknown[0]!r} of the admissible action "
                f"{action!r}; add it there, `agentrl envs check` finds all"
            )
        same = first.setdefault(tuple(action.split()), action)
        if same != action:
            raise ContractError(
                f"environment {name}: the admissible actions {same!r} and {action!r} are the same "
                "words, which a tiny model cannot tell apart; name them differently"
            )


async def first_observation(world: World) -> Observation:
    """The first observation of a task, after one reset and one step. Sessions check every answer;
    `agentrl envs check` checks far more."""
    session = world.session()
    try:
        seen = await session.reset(await world.task("heldout", 0))
        await session.step(seen.admissible[0] if seen.admissible else "")
    finally:
        await session.close()
    return seen
