"""Evaluation alone: any weights, or any endpoint, against the environments of a manifest.

What is played and how it is counted is what a run's own evaluation does; only who plays differs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from agentrl_components.errors import RunError
from agentrl_components.evaluation.heldout import RANDOM, exam
from agentrl_components.evaluation.summary import Evaluated
from agentrl_components.reporting import build
from agentrl_components.reporting.transcript import Replay, replay
from agentrl_components.rollout.collector import RANDOM_POLICY
from agentrl_components.rollout.environments import open_worlds
from agentrl_components.rollout.openai_agent import OpenAIAgent
from agentrl_components.rollout.tasks import TaskSource
from agentrl_components.rollout.text_rollout import RandomAgent, TextAgent, TextPlayers
from agentrl_components.run.progress import View
from agentrl_components.spec import AgentRLRun, Model, RunSpec
from agentrl_components.storage import checkpoint
from agentrl_components.trajectory.record import Trajectory
from agentrl_components.workers.group import Crew
from agentrl_envs.world import World
from agentrl_pipelines.local.run_folder import open_run

POLICY = "policy"
"""The name of the evaluation that is not the random policy's."""
SHOWN = 8
"""Episodes kept for people to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What an evaluation found."""

    policy: Evaluated
    random: Evaluated | None
    """The random policy on the same tasks; None: not asked for, or not possible here."""
    episodes: tuple[Replay, ...]
    """Some of the policy's."""


def evaluate_model(run: AgentRLRun, view: View) -> Found:
    """Evaluate the weights that the manifest's model names. Raises `ModelError` where they cannot
    be used."""
    with TemporaryDirectory(prefix="agentrl-") as scratch:
        view.stage("open the model")
        crew = Crew(run.spec, Path(scratch))
        try:
            asked = exam(run.spec, crew.draw("heldout", run.spec.evaluation.tasks))
            random = None
            if crew.home.run(offers_random(run.spec, crew.worlds)):
                view.stage("play the random policy")
                random, _ = asked.sit(RANDOM, lambda call: crew.players.play(call, RANDOM_POLICY))
            view.stage("play the policy")
            policy, episodes = asked.sit(POLICY, lambda call: crew.players.play(call, 0))
        finally:
            crew.close()
    return Found(policy=policy, random=random, episodes=shown(episodes))


def evaluate_endpoint(run: AgentRLRun, url: str, model: str, key: str, view: View) -> Found:
    """Evaluate a model behind an OpenAI-compatible endpoint. Raises `RunError` where it refuses."""
    view.stage("open the environments")
    with asyncio.Runner() as runner:
        worlds = runner.run(open_worlds(run.spec.environments))
        players = TextPlayers(run.spec, worlds)
        agent = OpenAIAgent(url, model, key)
        try:
            source = TaskSource(run.spec.environments, worlds)
            drawn = runner.run(source.draw("heldout", run.spec.evaluation.tasks))
            asked = exam(run.spec, drawn)

            def sit(name: str, who: TextAgent) -> tuple[Evaluated, Sequence[Trajectory]]:
                return asked.sit(name, lambda call: runner.run(players.play(call, who)))

            random = None
            if runner.run(offers_random(run.spec, worlds)):
                view.stage("play the random policy")
                random, _ = sit(RANDOM, RandomAgent())
            view.stage("ask the endpoint")
            policy, episodes = sit(POLICY, agent)
        finally:
            runner.run(players.close())
            runner.run(agent.close())
            for world in worlds.values():
                runner.run(world.close())
    return Found(policy=policy, random=random, episodes=shown(episodes))


async def offers_random(spec: RunSpec, worlds: dict[str, World]) -> bool:
    """Whether the random policy is asked for and every world names its admissible actions."""
    if not spec.evaluation.random_policy:
        return False
    for world in worlds.values():
        session = world.session()
        try:
            seen = await session.reset(await world.task("heldout", 0))
        finally:
            await session.close()
        if seen.admissible is None:
            return False
    return True


def shown(episodes: Sequence[Trajectory]) -> tuple[Replay, ...]:
    """The first try at each of the first tasks, for people."""
    return tuple(replay(e) for e in episodes if e.group < SHOWN and e.sample == 0)


def checkpoint_model(root: Path, which: str, folder: Path, model: Model) -> tuple[Model, str]:
    """`model` with the weights of a run's checkpoint, which are written to `folder`; and the
    checkpoint's address. `which` is a number of iterations, `best` or `last`.

    Raises `RunError` where there is no such checkpoint, `StoreError` where it is damaged."""
    store, began = open_run(root)
    there = checkpoint.complete(store)
    if not there:
        raise RunError(f"--root: {root}: the run has no checkpoint yet")
    if which == "last":
        number = there[-1]
    elif which == "best":
        kept = build.build(store, began, root).checkpoints
        number = next((one.iteration for one in kept if one.best), there[-1])
    elif which.isdecimal() and int(which) in there:
        number = int(which)
    else:
        known = ", ".join(map(str, there))
        raise RunError(
            f"--checkpoint: {root} has no checkpoint {which}; give best, last or one of {known}"
        )
    checkpoint.fetch(store, number, folder)
    template = began.spec.model.template
    if template == "auto" and began.spec.model.source == "tiny":
        template = "plain"
    told = began.spec.model.model_copy(
        update={
            "source": folder.as_uri(),
            "template": template,
            "lora": None,
            "dtype": model.dtype,
            "revision": None,
        }
    )
    return told, f"{store.url.rstrip('/')}/checkpoints/{number:06d}/"
