"""provision: wait for the environments, check their contract, and record their lineage."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from agentrl_components.errors import SpecError
from agentrl_components.run.journal import Journal
from agentrl_components.spec import AgentRLRun
from agentrl_components.spec.rules.environments.vocabulary import check_words
from agentrl_components.storage import keys
from agentrl_envs.env import Observation
from agentrl_envs.errors import ContractError
from agentrl_envs.world import World

SAMPLE = 8
"""Held-out tasks whose ids identify a task set."""


async def provision(
    run: AgentRLRun, worlds: Mapping[str, World], journal: Journal, phase: int = 0
) -> None:
    """Store the lineage of each environment. Raises `ContractError` if an environment breaks the
    contract."""
    lineage = await environment_lineage(run, worlds)
    journal.begin(run)
    journal.write_state("running", "the environments are ready")
    data = json.dumps(lineage, indent=1).encode()
    journal.store.replace(keys.phase(phase, keys.LINEAGE), data)


async def environment_lineage(
    run: AgentRLRun, worlds: Mapping[str, World]
) -> dict[str, dict[str, object]]:
    """The number of tasks of each environment and a hash that identifies them. Raises `SpecError`
    for an environment that does not name admissible actions although the manifest needs them, or no
    words although the model is tiny."""
    vocabularies = {name: world.vocabulary() for name, world in worlds.items()}
    check_words(run.spec, vocabularies)
    lineage: dict[str, dict[str, object]] = {}
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
        lineage[environment.name] = {
            "name": world.name,
            "where": environment.builtin or environment.image or str(environment.url),
            "train": world.size("train"),
            "heldout": world.size("heldout"),
            "tasks": hashlib.sha256("".join(t.id for t in tasks).encode()).hexdigest()[:16],
            "admissible": seen.admissible is not None,
        }
    return lineage


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
