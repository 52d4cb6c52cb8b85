"""Evaluation without training: a model or an endpoint on the held-out tasks of a manifest.

Tasks and statistics are those of a run's own evaluation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agentrl_components.errors import SpecError
from agentrl_components.evaluation.episode_log import FolderLog
from agentrl_components.evaluation.heldout import RANDOM, heldout_evaluation
from agentrl_components.evaluation.summary import HeldoutResult
from agentrl_components.reporting import build
from agentrl_components.reporting.transcript import Replay, replay
from agentrl_components.rollout.environments import open_worlds
from agentrl_components.rollout.openai_agent import REPLY_S, OpenAIAgent
from agentrl_components.rollout.request import RANDOM_POLICY, CollectRequest
from agentrl_components.rollout.tasks import TaskSource
from agentrl_components.rollout.text_rollout import (
    NO_USAGE,
    RandomAgent,
    TextAgent,
    TextCollector,
    Usage,
)
from agentrl_components.run.progress import ProgressView
from agentrl_components.run.worker_group import WorkerGroup
from agentrl_components.spec import AgentRLRun, Model, RunSpec
from agentrl_components.spec.turn_limits import range_of
from agentrl_components.storage import checkpoint
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.storage.scratch import ScratchFolder
from agentrl_components.trajectory.record import Trajectory
from agentrl_envs.world import World
from agentrl_pipelines.local.run_folder import open_run

POLICY = "policy"
"""Name of the evaluation of the given model or endpoint."""
MAX_REPLAYS = 8
"""Episodes kept for the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """The result of an evaluation."""

    policy: HeldoutResult
    random: HeldoutResult | None
    """The random policy on the same tasks. None: disabled, or an environment lists no admissible
    actions."""
    episodes: tuple[Replay, ...]
    """Replays of some episodes of `policy`."""
    usage: Usage = NO_USAGE
    """Tokens that the endpoint counted for `policy`, and how its replies ended."""
    resumed: int = 0
    """Episodes that an earlier process had finished."""


class EvaluationView(Protocol):
    """Where an evaluation of an endpoint is displayed."""

    def stage(self, name: str, total: int | None = None) -> None:
        """A stage begins and the previous one is done. `total`: the number of its episodes."""
        ...

    def episode(self, episode: Trajectory, usage: Usage, resumed: bool) -> None:
        """A finished episode. `resumed`: an earlier process had finished it."""
        ...

    def close(self) -> None:
        """Nothing more will be shown. `evaluate_endpoint` leaves this to its caller."""
        ...


def evaluate_model(run: AgentRLRun, view: ProgressView) -> EvaluationResult:
    """Evaluate the model of the manifest. Raises `ModelError` if it cannot be loaded."""
    with ScratchFolder() as scratch:
        view.stage("open the model")
        with WorkerGroup(run.spec, scratch, trains=False, note=view.note) as workers:
            asked = heldout_evaluation(run.spec, workers.draw("heldout", run.spec.evaluation.tasks))
            random = None
            if workers.loop.run(offers_random(run.spec, workers.worlds)):
                view.stage("play the random policy")
                random, _ = asked.run(
                    RANDOM, lambda request: workers.collector.collect(request, RANDOM_POLICY)
                )
            view.stage("play the policy")
            policy, episodes = asked.run(
                POLICY, lambda request: workers.collector.collect(request, 0)
            )
    return EvaluationResult(policy=policy, random=random, episodes=sampled_replays(episodes))


def evaluate_endpoint(
    run: AgentRLRun,
    url: str,
    model: str,
    key: str,
    view: EvaluationView,
    folder: Path,
    timeout_s: float = REPLY_S,
) -> EvaluationResult:
    """Evaluate a model behind an OpenAI-compatible endpoint, which has `timeout_s` seconds for a
    reply. Finished episodes are kept in `folder`; a second call with the same arguments plays the
    others.

    Raises `RunError` if the endpoint refuses a request, and `SpecError` if `folder` has the
    episodes of another evaluation.
    """
    log = FolderLog(folder, description(run.spec, url, model), view.episode)
    view.stage("open the environments")
    with asyncio.Runner() as runner:
        worlds = runner.run(open_worlds(run.spec.environments))
        collector = TextCollector(run.spec, worlds, log)
        agent = OpenAIAgent(url, model, key, timeout_s)
        try:
            runner.run(agent.check())
            source = TaskSource(run.spec.environments, worlds)
            drawn = runner.run(source.draw("heldout", run.spec.evaluation.tasks))
            asked = heldout_evaluation(run.spec, drawn)

            def play(request: CollectRequest, who: TextAgent) -> Sequence[Trajectory]:
                return runner.run(collector.collect(request, who))

            def ask(request: CollectRequest) -> Sequence[Trajectory]:
                rules = request.rules(run.spec)
                limits = {rules.turns(one.environment) for one in request.tasks}
                episodes = len(request.tasks) * request.samples
                view.stage(f"ask the endpoint, {range_of(limits)} turns allowed", episodes)
                return play(request, agent)

            random = None
            if runner.run(offers_random(run.spec, worlds)):
                view.stage("play the random policy")
                random, _ = asked.run(RANDOM, lambda request: play(request, RandomAgent()))
            policy, episodes = asked.run(POLICY, ask)
        finally:
            runner.run(collector.close())
            runner.run(agent.close())
            for world in worlds.values():
                runner.run(world.close())
    write_replays(folder, episodes)
    return EvaluationResult(
        policy=policy,
        random=random,
        episodes=sampled_replays(episodes),
        usage=log.usage,
        resumed=log.resumed,
    )


def description(spec: RunSpec, url: str, model: str) -> dict[str, object]:
    """All that an episode depends on besides its task, sample and turn limit."""
    fields = spec.model_dump(mode="json", by_alias=True)
    rollout = ("actions", "maxTokensPerTurn", "topP")
    places = ("name", "builtin", "image", "url", "options")
    return {
        "model": model,
        "endpoint": url,
        "seed": spec.seed,
        "temperature": spec.evaluation.temperature,
        "rollout": {name: fields["rollout"][name] for name in rollout},
        "environments": [{p: e[p] for p in places} for e in fields["environments"]],
    }


def settings(spec: RunSpec) -> dict[str, object]:
    """All that the result of `evaluate_model` depends on besides the weights: values of JSON by
    field of the manifest, such as `evaluation.tasks` and `environments[rooms].options.size`. Turn
    limits are those that apply."""
    fields = spec.model_dump(mode="json", by_alias=True)
    asked = heldout_evaluation(spec, ())
    unused = {"source", "lora"} if spec.model.source == "tiny" else {"source", "lora", "tiny"}
    used = {
        "model": fields["model"].keys() - unused,
        "rollout": ("actions", "engine", "maxTokensPerTurn", "topP"),
        "evaluation": ("tasks", "samples", "temperature", "turnSweep", "randomPolicy"),
    }
    found: dict[str, object] = {
        "seed": spec.seed,
        "environments": [each.name for each in spec.environments],
        "evaluation.maxTurns": asked.max_turns,
    }
    for part, names in used.items():
        found |= {f"{part}.{name}": fields[part][name] for name in sorted(names)}
    for each in fields["environments"]:
        path = f"environments[{each['name']}]"
        found[f"{path}.maxTurns"] = asked.turn_limits.get(each["name"])
        for name in ("builtin", "image", "url", "protocol", "weight"):
            found[f"{path}.{name}"] = each[name]
        found |= {f"{path}.options.{name}": value for name, value in each["options"].items()}
    return found


def write_replays(folder: Path, episodes: Sequence[Trajectory]) -> None:
    """Write all episodes as text: `episodes.jsonl`, one `Replay` a line."""
    lines = "".join(f"{replay(episode).model_dump_json()}\n" for episode in episodes)
    DirectoryStore(folder, durable=False).replace("episodes.jsonl", lines.encode())


async def offers_random(spec: RunSpec, worlds: dict[str, World]) -> bool:
    """Whether the random policy is enabled and every environment lists its admissible actions."""
    if not spec.evaluation.random_policy:
        return False
    for world in worlds.values():
        session = world.session()
        try:
            observation = await session.reset(await world.task("heldout", 0))
        finally:
            await session.close()
        if observation.admissible is None:
            return False
    return True


def sampled_replays(episodes: Sequence[Trajectory]) -> tuple[Replay, ...]:
    """Replays of the first sample of each of the first `MAX_REPLAYS` tasks."""
    return tuple(replay(e) for e in episodes if e.group < MAX_REPLAYS and e.sample == 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedCheckpoint:
    """A checkpoint of a run in a folder."""

    model: Model
    """The run's model spec with the folder as its source."""
    iteration: int
    """Iterations completed."""
    url: str
    """Where the checkpoint is in the store."""


def checkpoint_model(root: Path, which: str, folder: Path, model: Model) -> FetchedCheckpoint:
    """Fetch a checkpoint of the run in `root` into `folder`.

    `which` is a number of iterations, `best` or `last`. The dtype is that of `model`.

    Raises:
        SpecError: there is no such run, or it has no such checkpoint.
        StoreError: the checkpoint is damaged.
    """
    store, run = open_run(root)
    available = checkpoint.complete(store)
    if not available:
        raise SpecError([f"--root: {root}: the run has no checkpoint yet"])
    if which == "last":
        number = available[-1]
    elif which == "best":
        kept = build.build(store, run, root).checkpoints
        number = next((one.iteration for one in kept if one.best), available[-1])
    elif which.isdecimal() and int(which) in available:
        number = int(which)
    else:
        choices = ", ".join(map(str, available))
        raise SpecError(
            [f"--checkpoint: {root} has no checkpoint {which}; give best, last or one of {choices}"]
        )
    checkpoint.fetch(store, number, folder)
    template = run.spec.model.template
    if template == "auto" and run.spec.model.source == "tiny":
        template = "plain"
    fetched = run.spec.model.model_copy(
        update={
            "source": folder.as_uri(),
            "template": template,
            "lora": None,
            "dtype": model.dtype,
            "revision": None,
        }
    )
    url = f"{store.url.rstrip('/')}/checkpoints/{number:06d}/"
    return FetchedCheckpoint(model=fetched, iteration=number, url=url)
