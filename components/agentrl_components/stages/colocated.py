"""Rollouts in the process that learns, between two updates."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from agentrl_components.errors import StoreError
from agentrl_components.exchange.trajectory_queue import TrajectoryQueue
from agentrl_components.exchange.weight_channel import Published, WeightChannel
from agentrl_components.run.context import RunContext
from agentrl_components.schedule.record import Decision
from agentrl_components.spec.turn_limits import all_turn_limits
from agentrl_components.stages.iteration import NextIteration
from agentrl_components.stages.rollout import play_iteration
from agentrl_components.trajectory.record import Trajectory


class ColocatedRollouts:
    """Plays with the learner's weights, which the workers share in memory.

    Without staleness it plays the iteration that is asked for. With `rollout.maxStaleness` it plays
    every iteration that the current weights play, and keeps those played ahead in the store, where
    a restarted run finds them."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._queue = TrajectoryQueue(context.store)
        self._channel = WeightChannel(context.store)
        self._pruned_at = -1

    def resume(self) -> None:
        """Restart the lag if episodes that were played ahead are gone."""
        recover_window(self._context, self._queue, self._channel)

    def collect(self, it: NextIteration) -> Sequence[Trajectory]:
        """The episodes of an iteration, played now or taken from the store."""
        context = self._context
        if not it.window.max_lag:
            return play_iteration(context, it.number, it.max_turns, it.phase)
        # Of the current policy only a resumed run has episodes here.
        stored = [
            self._queue.take(number, policy)
            for number, policy in it.window.iterations()
            if policy == it.number and self._queue.has(number, policy)
        ]
        if any(outdated(context, episodes, it, it.number) for episodes in stored):
            self._queue.forget_policies_after(it.number - 1)
        for number, policy in it.window.iterations():
            if not self._queue.has(number, policy):
                with loaded_policy(context, self._channel, policy, current=it.number):
                    episodes = play_iteration(context, number, it.max_turns, it.phase)
                    self._queue.put(number, policy, episodes)
        return self._queue.take(it.number, it.policy)

    def stream_metrics(self) -> dict[str, float]:
        """None: nothing streams."""
        return {}

    def measurements(self) -> dict[str, float]:
        """What hand-overs took and how busy samplers were, on Ray. Without Ray nothing: weights are
        shared."""
        actors = self._context.workers.actors
        return {} if actors is None else actors.hand_over_metrics() | actors.load_metrics()

    def load_weights(self, decision: Decision) -> None:
        """Nothing to copy: the workers share the learner's weights. Drops episodes in the store
        that checkpoints cover."""
        context = self._context
        if context.spec.rollout.max_staleness and context.newest_checkpoint != self._pruned_at:
            prune_queue(context, self._queue, decision)
            self._pruned_at = context.newest_checkpoint


def outdated(
    context: RunContext, episodes: Sequence[Trajectory], it: NextIteration, policy: int
) -> bool:
    """Whether stored episodes have other turn limits or another policy version than `policy` would
    play in the phase of `it`. A run that resumes repeats the iterations after its checkpoint; on a
    device that rounds differently a phase may end elsewhere then, or a rollback happen, and the
    keys of episodes do not show that."""
    limits = all_turn_limits(context.spec, it.phase)
    version = context.training.version - (it.number - policy)
    return any(
        episode.max_turns != limits[episode.environment] or (episode.versions != version).any()
        for episode in episodes
    )


def recover_window(context: RunContext, queue: TrajectoryQueue, channel: WeightChannel) -> None:
    """Restart the lag at 0, as at the start of a phase, if damaged checkpoints made the run resume
    from before the episodes or policies that are kept. The policies after that checkpoint are then
    trained again, with other weights, so their episodes are deleted."""
    window, newest = context.play_window(), channel.newest()
    number, policy = window.number, window.policy(window.number)
    if queue.has(number, policy):
        return
    forgotten = newest is not None and newest.window.number > number
    if forgotten or (policy != number and channel.read(policy) is None):
        context.restart_lag = True
        channel.clear()
        queue.forget_policies_after(number)


def prune_queue(context: RunContext, queue: TrajectoryQueue, decision: Decision) -> None:
    """Delete stored episodes that no resume can need."""
    window = context.play_window()
    oldest_policy = window.policy(window.number)
    if decision.ends_run:
        oldest_policy = window.number + 1  # nothing is played any more, by any policy
    queue.forget(context.oldest_needed, window.number, oldest_policy)


@contextlib.contextmanager
def loaded_policy(
    context: RunContext, channel: WeightChannel, policy: int, current: int
) -> Iterator[None]:
    """Load the weights of `policy` for the block; `current` is the policy that is loaded now.
    Another one is needed only by a run whose rollouts were in another process until now; its
    weights are in the channel."""
    if policy == current:
        yield
        return
    vector, version = context.lead.policy.shared.vector, context.training.version
    own = vector.clone()
    load_policy(context, channel, policy)
    try:
        yield
    finally:
        vector.copy_(own)
        context.training.version = version


def load_policy(context: RunContext, channel: WeightChannel, policy: int) -> Published:
    """Load the weights of `policy` from the channel, and return its description. Raises
    `StoreError` if they are gone."""
    published = channel.read(policy)
    if published is None:
        raise StoreError(f"{channel.url}: the weights of policy {policy} are gone")
    context.lead.policy.shared.vector.copy_(channel.fetch(policy))
    context.training.version = published.version
    return published
