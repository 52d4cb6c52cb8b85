"""Runs that resume from before what they had played ahead."""

from dataclasses import dataclass

import pytest
import torch

from agentrl_components.exchange.trajectory_queue import TrajectoryQueue
from agentrl_components.exchange.weight_channel import Published, WeightChannel
from agentrl_components.schedule.staleness import PlayWindow
from agentrl_components.stages.colocated import recover_window
from agentrl_components.storage.memory import MemoryStore


@dataclass
class AtIterationTen:
    """Stands for the context of a run with `maxStaleness: 1` that resumed from checkpoint 10."""

    restart_lag: bool = False

    def play_window(self):
        lag = 0 if self.restart_lag else 1
        return PlayWindow(number=10, lag=lag, last=11, max_lag=1)


def window(number):
    return PlayWindow(number=number, lag=1, last=number + 1, max_lag=1)


@pytest.mark.parametrize("published", [True, False], ids=["in two processes", "in one process"])
def test_policies_that_are_trained_anew_play_anew_if_the_lag_restarts(published):
    """The run had got to iteration 13, and checkpoints 11 and 12 are damaged. Iteration 10 is
    learned from episodes of policy 10, no longer of 9, so policies 11 and 12 have other weights."""
    store = MemoryStore()
    queue, channel = TrajectoryQueue(store), WeightChannel(store)
    for number in (11, 12, 13):
        queue.put(number, number - 1, [])
        if published:
            policy = Published(
                window=window(number), version=number, phase=0, max_turns=3, finished=False
            )
            channel.publish(policy, torch.zeros(2))
    context = AtIterationTen()
    recover_window(context, queue, channel)
    assert context.restart_lag
    there = {(n, p) for n in range(10, 14) for p in range(9, 13) if queue.has(n, p)}
    assert there == {(11, 10)}  # the weights of policy 10 are those of the checkpoint
    assert channel.newest() is None


def test_a_run_that_has_the_episodes_of_the_next_iteration_keeps_all():
    store = MemoryStore()
    queue, channel = TrajectoryQueue(store), WeightChannel(store)
    for number in (10, 11, 12):
        queue.put(number, number - 1, [])
    context = AtIterationTen()
    recover_window(context, queue, channel)
    assert not context.restart_lag
    assert all(queue.has(number, number - 1) for number in (10, 11, 12))
