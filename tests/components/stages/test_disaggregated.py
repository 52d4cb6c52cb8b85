"""The playing side, while the learning side is restarted."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from corridor_rules import RULES

from agentrl_components.exchange.heartbeat import Heartbeat
from agentrl_components.exchange.trajectory_queue import TrajectoryQueue
from agentrl_components.exchange.weight_channel import Published, WeightChannel
from agentrl_components.rollout.episode import EpisodeState, Job, trajectory
from agentrl_components.run.context import RunContext
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.run.saved_state import TrainingState
from agentrl_components.schedule.staleness import PlayWindow
from agentrl_components.spec import AgentRLRun
from agentrl_components.stages.disaggregated import RemoteRollouts, play_phase, to_play
from agentrl_components.stages.iteration import NextIteration
from agentrl_components.storage.memory import MemoryStore
from agentrl_components.tracking.tracker import SilentTracker
from agentrl_components.trajectory.record import Turn
from agentrl_envs.environments.corridor import CorridorTasks

RUN = AgentRLRun.model_validate(
    {
        "apiVersion": "agentrl.dev/v1alpha1",
        "kind": "AgentRLRun",
        "metadata": {"name": "apart"},
        "spec": {
            "model": {"source": "tiny", "context": 64},
            "environments": [{"name": "corridor", "builtin": "corridor"}],
            "rollout": {"tasks": 2, "groupSize": 2},
            "horizon": {
                "phases": [{"maxTurns": 3, "iterations": 3}, {"maxTurns": 5, "iterations": 3}]
            },
            "compute": {"workers": 1},
        },
    }
)


class LearningSide:
    """Publishes weights, and may do so while the other side plays."""

    def __init__(self, context, while_played):
        self._vector = context.lead.policy.shared.vector
        self._while_played = while_played
        self.channel = WeightChannel(context.store)
        self.limits = []
        """Turn limits of the iterations that were played."""
        self.weights = []
        """The first weight of the policies that played them."""

    def publish(self, number, *, weight=0.0, **changes):
        window = PlayWindow(number=number, lag=0, last=number, max_lag=0)
        stated = {"version": number, "phase": 0, "max_turns": 3, "finished": False} | changes
        vector_P = torch.full_like(self._vector, weight)
        self.channel.publish(Published(window=window, **stated), vector_P)

    def collect(self, request, version):
        """In the place of a collector: the episodes are of no interest here."""
        self.limits.append(request.max_turns)
        self.weights.append(self._vector[0].item())
        self._while_played(self)
        return []


@dataclass
class InPhaseOne:
    """Stands for the context of a run whose second phase has begun after five iterations."""

    store: MemoryStore
    spec = RUN.spec
    training = TrainingState(version=5)


def episode(max_turns, version=5):
    """An episode of one turn and one token in iteration 5."""
    turn = Turn(
        start=0, end=1, reward=0.0, wellformed=True, action="", observation="", version=version
    )
    job = Job(
        environment="corridor",
        instructions="",
        task=CorridorTasks().task("train", 0),
        group=0,
        sample=0,
        iteration=5,
    )
    empty = trajectory(job, RULES, EpisodeState())
    return replace(
        empty,
        ids=np.zeros(1, dtype=np.int32),
        mask=np.ones(1, dtype=np.bool_),
        logprobs=np.zeros(1, dtype=np.float32),
        turns=(turn,),
        max_turns=max_turns,
    )


@pytest.mark.parametrize("stale", [episode(3), episode(5, version=4)], ids=["limit", "version"])
def test_episodes_that_were_written_while_their_policy_was_withdrawn_are_played_again(stale):
    store = MemoryStore()
    queue, window = TrajectoryQueue(store), PlayWindow(number=5, lag=0, last=5, max_lag=0)
    published = Published(window=window, version=5, phase=1, max_turns=5, finished=False)
    WeightChannel(store).publish(published, torch.zeros(2))
    queue.put(5, 5, [stale])
    assert to_play(published, queue, WeightChannel(store)) is None

    def play_again(_):
        assert to_play(published, queue, WeightChannel(store)) == published
        queue.put(5, 5, [episode(5)])

    heartbeat = Heartbeat(store, "update", sleep=play_again)
    rollouts = RemoteRollouts(InPhaseOne(store), heartbeat)
    it = NextIteration(number=5, phase=1, max_turns=5, window=window)
    (taken,) = rollouts.collect(it)
    assert (taken.max_turns, taken.turns[0].version) == (5, 5)


def end(other):
    other.publish(2, finished=True)


def take_back_and_end(other):
    other.channel.clear()
    end(other)


def publish_otherwise_and_end(other):
    """The second time that it is played, the run ends."""
    if len(other.limits) == 2:
        end(other)
    else:
        other.channel.withdraw(1)
        other.publish(1, weight=1.0, phase=1, max_turns=5)


def play(while_played, phase=0):
    """What a learning side that acts `while_played` saw, and whether the iteration was kept."""
    store, view = MemoryStore(), SilentProgressView()
    with RunContext(RUN, store, SilentTracker(), view, lambda: None, learns=False) as context:
        other = LearningSide(context, while_played)
        other.publish(1)
        context.collector = other
        play_phase(context, phase)
    return other, TrajectoryQueue(store).has(1, 1)


def test_episodes_of_weights_that_were_taken_back_while_they_were_played_are_dropped():
    assert play(end)[1]
    assert not play(take_back_and_end)[1]


def test_a_policy_that_was_published_otherwise_meanwhile_is_loaded_and_plays_again():
    other, kept = play(publish_otherwise_and_end, phase=1)
    assert other.limits == [3, 5]
    assert other.weights == [0.0, 1.0]
    assert kept
