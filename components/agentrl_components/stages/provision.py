"""provision: wait until the worlds answer, check that they keep the contract, record what they are."""

from __future__ import annotations

import asyncio
import hashlib
import json

from agentrl_envs.session import World

from agentrl_components import layout
from agentrl_components.context import RunContext

SAMPLE = 8
"""Held-out tasks that stand for a task set."""


def provision(context: RunContext) -> None:
    """Record each world's lineage. Raises `ContractError` naming what a world did that it may not, and
    `SessionError` naming a URL that does not answer."""
    with context.stage("provision", len(context.spec.environments)):
        context.journal.begin(context.run)
        context.journal.state("running", "provisioning environments")
        lineage = asyncio.run(describe(context))
        context.store.put(layout.phase(0, "environments.json"), json.dumps(lineage, indent=1).encode())


async def describe(context: RunContext) -> dict[str, dict[str, object]]:
    """What each world is: tasks, and a hash that stands for them."""
    lineage: dict[str, dict[str, object]] = {}
    for environment in context.spec.environments:
        world = context.lead.worlds[environment.name]
        await probe(world)
        tasks = [await world.task("heldout", i) for i in range(SAMPLE)]
        lineage[environment.name] = {
            "name": world.name,
            "where": environment.builtin or environment.image or str(environment.url),
            "train": world.size("train"),
            "heldout": world.size("heldout"),
            "tasks": hashlib.sha256("".join(t.id for t in tasks).encode()).hexdigest()[:16],
        }
        context.view.advance()
    return lineage


async def probe(world: World) -> None:
    """One reset and one step. Sessions check every answer; `agentrl envs check` checks far more."""
    session = world.session()
    try:
        seen = await session.reset(await world.task("heldout", 0))
        await session.step(seen.admissible[0] if seen.admissible else "")
    finally:
        await session.close()
