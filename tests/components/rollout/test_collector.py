"""Lost episodes are replayed, and groups without a learning signal are replaced."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest

from agentrl_components.dialogue.plain import PlainDialogue
from agentrl_components.dialogue.word_tokenizer import word_tokenizer
from agentrl_components.engines.random_policy import RandomEngine
from agentrl_components.rollout.collector import REPLAYS, Collector
from agentrl_components.rollout.request import RANDOM_POLICY, CollectRequest
from agentrl_components.rollout.tasks import DrawnTask
from agentrl_components.rollout.token_rollout import TokenRollout
from agentrl_components.run.context import RunContext
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.spec import AgentRLRun, RunSpec, parse
from agentrl_components.stages.rollout import play_iteration
from agentrl_components.stages.train import train
from agentrl_components.storage import keys
from agentrl_components.storage.open import MemoryStore
from agentrl_components.tracking.tracker import SilentTracker
from agentrl_components.trajectory.record import Ending
from agentrl_envs.conformance.faults import Faults, FaultyTaskSet
from agentrl_envs.environments.corridor import CorridorEnvironment, CorridorTasks
from agentrl_envs.errors import SessionError
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.run import running
from agentrl_envs.world import LocalWorld

TASKS = CorridorTasks()
DIALOGUE = PlainDialogue(word_tokenizer(TASKS.vocabulary()).get_vocab())
WORLD = {"name": "corridor", "builtin": "corridor"}


def manifest(algorithm: dict, world=None, **rolled) -> AgentRLRun:
    return parse(
        {
            "apiVersion": "agentrl.dev/v1alpha1",
            "kind": "AgentRLRun",
            "metadata": {"name": "players"},
            "spec": {
                "model": {
                    "context": 128,
                    "tiny": {"layers": 1, "hidden": 24, "heads": 3, "intermediate": 32},
                },
                "environments": [world or WORLD],
                "algorithm": algorithm,
                "horizon": {"phases": [{"maxTurns": 3, "iterations": 2}]},
                "rollout": {
                    **{
                        "tasks": 4,
                        "groupSize": 4,
                        "actions": "admissible",
                        "retries": 0,
                        "maxTokensPerTurn": 8,
                    },
                    **rolled,
                },
                "compute": {"workers": 1, "device": "cpu"},
            },
        }
    )


class TwoSamplers:
    """Two samplers that play at random, each in a world of its own."""

    size = 2

    def __init__(self, *worlds) -> None:
        self.asked: list[int] = []
        self._rollouts = [TokenRollout({"corridor": world}, DIALOGUE, 0, 64) for world in worlds]

    def play(self, shares, rules, version):
        assert version == RANDOM_POLICY
        self.asked.append(sum(len(share) for share in shares))
        return [
            asyncio.run(rollout.play(share, rules, RandomEngine()))
            for rollout, share in zip(self._rollouts, shares, strict=False)
        ]


def collected(samplers, notes=None):
    spec: RunSpec = manifest({"name": "ppo"}).spec
    collector = Collector(spec, samplers, {"corridor": TASKS.instructions()}, pause_s=0.0)
    if notes is not None:
        collector.note = notes.append
    tasks = [DrawnTask("corridor", TASKS.task("train", index)) for index in range(5)]
    request = CollectRequest(
        tasks=tasks,
        samples=4,
        max_turns=4,
        temperature=1.0,
        iteration=-1,
        purpose="warm start",
        first_group=7,
    )
    return collector.collect(request, RANDOM_POLICY)


def same(one, other) -> bool:
    """Whether two episodes are bit-identical."""
    arrays = ("ids", "mask", "logprobs")
    facts = ("task", "group", "sample", "turns", "ending", "score", "note")
    return all(np.array_equal(getattr(one, a), getattr(other, a)) for a in arrays) and all(
        getattr(one, f) == getattr(other, f) for f in facts
    )


def test_a_replayed_episode_equals_the_one_that_was_lost():
    still = TwoSamplers(LocalWorld(TASKS), LocalWorld(TASKS))
    before = collected(still)
    shaken = TwoSamplers(
        LocalWorld(FaultyTaskSet(TASKS, Faults(seed=1, lose_reset=0.15, lose_step=0.05))),
        LocalWorld(FaultyTaskSet(TASKS, Faults(seed=2, lose_reset=0.15, lose_step=0.05))),
    )
    notes: list[str] = []
    after = collected(shaken, notes)
    assert still.asked == [20]
    assert shaken.asked[0] == 20
    assert 0 < sum(shaken.asked[1:]) < 20  # some were lost, and only those were played again
    assert [(e.group, e.sample) for e in after] == [(g, s) for g in range(7, 12) for s in range(4)]
    assert all(same(one, other) for one, other in zip(before, after, strict=True))
    assert notes[0].startswith(f"replaying {shaken.asked[1]} of 20 episodes that were lost")
    assert "on purpose" in notes[0]


def test_the_number_of_replays_is_bounded():
    pool = TwoSamplers(
        LocalWorld(FaultyTaskSet(TASKS, Faults(lose_reset=1.0))),
        LocalWorld(TASKS),
    )
    episodes = collected(pool)
    # Groups 7, 9 and 11 are the first world's; of what it lost, it meets the half again each time.
    assert len(pool.asked) == 1 + REPLAYS
    assert pool.asked[:3] == [20, 12, 8]
    assert {e.group for e in episodes if e.ending is Ending.LOST} == {7}
    assert len(episodes) == 20


class Outage(CorridorTasks):
    """Corridors whose first few sessions are lost."""

    def __init__(self, sessions: int) -> None:
        super().__init__()
        self.left = sessions

    def environment(self) -> CorridorEnvironment:
        self.left -= 1
        return Broken() if self.left >= 0 else super().environment()


class Broken(CorridorEnvironment):
    def reset(self, task):
        raise SessionError("the server is being moved")


@contextmanager
def at_work(run: AgentRLRun, store: MemoryStore | None = None) -> Iterator[RunContext]:
    store = store or MemoryStore()
    with RunContext(run, store, SilentTracker(), SilentProgressView(), lambda: None) as context:
        yield context


@pytest.mark.parametrize("name", ["ppo", "reinforce++"])
def test_a_run_whose_environment_failed_for_a_moment_has_the_records_of_an_undisturbed_run(name):
    records = []
    for sessions in (0, 6):
        tasks = Outage(sessions)
        app = create_app(tasks, ThreadExecutor(tasks), ServerOptions())
        with running(app) if sessions else nullcontext() as url:
            world = {"name": "corridor", "url": url} if sessions else WORLD
            with at_work(manifest({"name": name}, world)) as context:
                train(context, 0)
                there = context.store.list(keys.ITERATIONS)
                records.append([context.store.get(key) for key in there])
        assert tasks.left < 0 or not sessions
    assert len(records[0]) == 2
    assert records[0] == records[1]


def scores(episodes) -> dict[int, list[float]]:
    told: dict[int, list[float]] = {}
    for episode in episodes:
        told.setdefault(episode.group, []).append(episode.score)
    return told


def test_silent_groups_are_replaced_by_other_tasks_up_to_refill_rounds():
    usual = {"tasks": 6, "groupSize": 3}
    with at_work(manifest({"name": "grpo"}, **usual)) as context:
        alone = play_iteration(context, 0, 3, 0)
    with at_work(manifest({"name": "grpo", "refillRounds": 2}, **usual)) as context:
        refilled = play_iteration(context, 0, 3, 0)
        updated = context.learner.update(refilled, 0, 1e-3)
    told = scores(refilled)
    speaking = {group for group, some in told.items() if len(set(some)) > 1}
    assert all(same(one, other) for one, other in zip(alone, refilled[:18], strict=True))
    silent = 6 - len(speaking & set(range(6)))
    assert silent > 0
    assert set(range(6, 12)) & set(told) == set(range(6, 6 + silent))
    silent -= len(speaking & set(range(6, 12)))
    assert set(range(12, 18)) & set(told) == set(range(12, 12 + silent))
    assert len(speaking) > len([some for some in scores(alone).values() if len(set(some)) > 1])
    assert len({e.task for e in refilled}) == len(told)  # no task twice
    assert updated.steps > 0


def test_refilling_ends_when_every_group_has_a_learning_signal():
    run = manifest({"name": "grpo", "refillRounds": 8}, tasks=1, groupSize=16)
    with at_work(run) as context:
        episodes = play_iteration(context, 0, 4, 0)
    told = scores(episodes)
    assert len(set(told[max(told)])) > 1
    assert all(len(set(told[group])) == 1 for group in told if group != max(told))
