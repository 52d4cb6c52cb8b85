"""provision: wait until the worlds answer, check that they keep the contract, record what they
are."""

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
"""Held-out tasks that stand for a task set."""


async def provision(
    run: AgentRLRun, worlds: Mapping[str, World], journal: Journal, phase: int = 0
) -> None:
    """Record each world's lineage. Raises `ContractError` naming what a world did that it may
    not."""
    lineage = await describe(run, worlds)
    journal.begin(run)
    journal.state("running", "the environments answer")
    data = json.dumps(lineage, indent=1).encode()
    journal.store.replace(keys.phase(phase, keys.LINEAGE), data)


async def describe(run: AgentRLRun, worlds: Mapping[str, World]) -> dict[str, dict[str, object]]:
    """What each world is: tasks, and a hash that stands for them. Raises `SpecError` for one that
    does not name the admissible actions that the manifest asks for."""
    lineage: dict[str, dict[str, object]] = {}
    for i, environment in enumerate(run.spec.environments):
        world = worlds[environment.name]
        seen = await probe(world)
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


async def probe(world: World) -> Observation:
    """What one reset shows; one step is taken after it. Sessions check every answer; `agentrl envs
    check` checks far more."""
    session = world.session()
    try:
        seen = await session.reset(await world.task("heldout", 0))
        await session.step(seen.admissible[0] if seen.admissible else "")
    finally:
        await session.close()
    return seen
