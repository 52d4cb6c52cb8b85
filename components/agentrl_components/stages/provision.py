"""provision: wait for the environments, check their contract, and record their lineage."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from agentrl_components.errors import SpecError
from agentrl_components.run.journal import Journal
from agentrl_components.spec import AgentRLRun
from agentrl_components.storage import keys
from agentrl_envs.env import Observation
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
    for an environment that does not name admissible actions although the manifest needs them."""
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
