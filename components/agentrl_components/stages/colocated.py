"""Playing in the process that learns, between two updates."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from agentrl_components.errors import StoreError
from agentrl_components.exchange.trajectory_queue import TrajectoryQueue
from agentrl_components.exchange.weight_channel import WeightChannel
from agentrl_components.run.context import RunContext
from agentrl_components.schedule.decision import Decision
from agentrl_components.schedule.staleness import Ahead
from agentrl_components.stages.rollout import rollout
from agentrl_components.storage.store import Store
from agentrl_components.trajectory.record import Trajectory


class Colocated:
    """Plays with the weights as they are: this iteration, or, where the weights may lag, whatever
    these weights play. What is played ahead waits in the store, where a run that is started again
    finds it."""

    def __init__(self, store: Store) -> None:
        self._queue, self._channel = TrajectoryQueue(store), WeightChannel(store)
        self._covered = -1

    def resume(self, context: RunContext) -> None:
        mend(context, self._queue, self._channel)

    def play(self, context: RunContext, ahead: Ahead, max_turns: int) -> Sequence[Trajectory]:
        """The episodes of iteration `ahead.number`."""
        if not ahead.most:
            return rollout(context, ahead.number, max_turns)
        for number, policy in ahead.plays():
            if not self._queue.has(number, policy):
                with played_by(context, self._channel, policy, ahead.number):
                    self._queue.put(number, policy, rollout(context, number, max_turns))
        return self._queue.take(ahead.number, ahead.policy(ahead.number))

    def moved(self, context: RunContext, decision: Decision) -> None:
        """Drop what checkpoints cover."""
        if context.spec.rollout.max_staleness and context.saved != self._covered:
            forget(context, self._queue, decision)
            self._covered = context.saved


def mend(context: RunContext, queue: TrajectoryQueue, channel: WeightChannel) -> None:
    """Where damaged checkpoints made the run go back farther than episodes are kept, play again
    from there, as at the beginning of a phase."""
    ahead, newest = context.ahead(), channel.newest()
    number, policy = ahead.number, ahead.policy(ahead.number)
    if queue.has(number, policy):
        return
    forgotten = newest is not None and newest.ahead.number > number
    if forgotten or (policy != number and channel.read(policy) is None):
        context.anew = True
        channel.clear()


def forget(context: RunContext, queue: TrajectoryQueue, decision: Decision) -> None:
    """Drop episodes that are not wanted any more, however the run goes on."""
    ahead = context.ahead()
    oldest = ahead.policy(ahead.number)
    if decision.action in ("finish", "stop"):
        oldest = ahead.number + 1  # nothing is played any more, by whatever policy
    queue.forget(context.covered, ahead.number, oldest)


@contextlib.contextmanager
def played_by(
    context: RunContext, channel: WeightChannel, policy: int, present: int
) -> Iterator[None]:
    """The weights of `policy` for a while; `present` are those in place. Others are wanted only by
    a run whose player was another process until now: they are where it found them."""
    if policy == present:
        yield
        return
    vector, version = context.lead.policy.shared.vector, context.version
    own = vector.clone()
    take_weights(context, channel, policy)
    try:
        yield
    finally:
        vector.copy_(own)
        context.version = version


def take_weights(context: RunContext, channel: WeightChannel, policy: int) -> None:
    """Put the weights of `policy` in place. Raises `StoreError` where they are gone."""
    published = channel.read(policy)
    if published is None:
        raise StoreError(f"{channel.url}: policy {policy} is gone")
    context.lead.policy.shared.vector.copy_(channel.fetch(policy))
    context.version = published.version
