"""rollout and update in separate processes that meet in the store.

The playing side is told which iterations it may play, and with which weights. How far it is ahead
of the learning side is fixed by the schedule (`schedule.staleness`), so the metrics equal those of
the colocated form, bit for bit on CPU. Either side may be killed at any time and restarted.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentrl_components.exchange.heartbeat import Heartbeat
from agentrl_components.exchange.trajectory_queue import TrajectoryQueue
from agentrl_components.exchange.weight_channel import Published, WeightChannel
from agentrl_components.run.context import RunContext
from agentrl_components.schedule.record import Decision
from agentrl_components.stages.before_training import prepare
from agentrl_components.stages.colocated import (
    load_policy,
    outdated,
    prune_queue,
    recover_window,
)
from agentrl_components.stages.iteration import NextIteration
from agentrl_components.stages.rollout import play_iteration
from agentrl_components.stages.train import train
from agentrl_components.trajectory.record import Trajectory


def play_phase(context: RunContext, phase: int) -> None:
    """The playing side: play until `phase` is over."""
    loaded: Published | None = None
    queue, channel = TrajectoryQueue(context.store), WeightChannel(context.store)
    with Heartbeat(context.store, "rollout", note=context.view.note) as heartbeat:
        published = heartbeat.wait_for(channel.newest)
        while not published.finished and published.phase <= phase:
            missing = first_missing(published, queue, channel)
            newer = newer_policy(channel, published)
            if newer is not None:
                # The learner may have deleted what it is past, so that is not missing.
                published = newer
            elif missing is None:
                published = heartbeat.wait_for(
                    lambda seen=published: to_play(seen, queue, channel)  # type: ignore[misc]
                )
            else:
                number, weights = missing
                policy = weights.window.number
                if weights != loaded:
                    loaded = load_policy(context, channel, policy)
                episodes = play_iteration(context, number, published.max_turns, published.phase)
                if channel.read(policy) != loaded:
                    continue  # the learning side was restarted, and has withdrawn this policy
                queue.put(number, policy, episodes)
                context.view.advance()
                context.check_stop()


def first_missing(
    published: Published, queue: TrajectoryQueue, channel: WeightChannel
) -> tuple[int, Published] | None:
    """The first iteration that may be played, was not played, and whose policy's weights are there,
    with that policy."""
    for number, policy in published.window.iterations():
        if not queue.has(number, policy):
            weights = channel.read(policy)
            if weights is not None:
                return number, weights
    return None


def newer_policy(channel: WeightChannel, than: Published) -> Published | None:
    """The newest published policy, if it is not `than`."""
    newest = channel.newest()
    return None if newest == than else newest


def to_play(seen: Published, queue: TrajectoryQueue, channel: WeightChannel) -> Published | None:
    """The newest published policy, if it is not `seen`, or `seen` if the learning side has dropped
    what was played for it."""
    newer = newer_policy(channel, seen)
    if newer is None and first_missing(seen, queue, channel) is not None:
        return seen
    return newer


def learn_phase(context: RunContext, phase: int) -> Decision:
    """The learning side: prepare the run if it is new, then train on what the other side plays."""
    with Heartbeat(context.store, "update", note=context.view.note) as heartbeat:
        prepare(context)
        return train(context, phase, RemoteRollouts(context, heartbeat))


class RemoteRollouts:
    """Rollouts of another process: takes episodes from the queue, publishes weights in the
    channel."""

    def __init__(self, context: RunContext, heartbeat: Heartbeat) -> None:
        self._context, self._heartbeat = context, heartbeat
        self._queue = TrajectoryQueue(context.store)
        self._channel = WeightChannel(context.store)
        self._pruned_at = -1

    def resume(self) -> None:
        """Restart the lag if episodes that were played ahead are gone."""
        recover_window(self._context, self._queue, self._channel)

    def collect(self, it: NextIteration) -> Sequence[Trajectory]:
        """The episodes of an iteration. Waits until the other process has played them."""
        while True:
            self._heartbeat.wait_for(lambda: self._queue.has(it.number, it.policy) or None)
            episodes = self._queue.take(it.number, it.policy)
            if not outdated(self._context, episodes, it, it.policy) or not self._playable(it):
                return episodes
            # The other process wrote them while their policy was being withdrawn.
            self._queue.drop(it.number, it.policy)

    def stream_metrics(self) -> dict[str, float]:
        """None: nothing streams."""
        return {}

    def measurements(self) -> dict[str, float]:
        """None: this side does not play."""
        return {}

    def load_weights(self, decision: Decision) -> None:
        """Publish the weights, and drop episodes in the store that checkpoints cover, and those of
        policies that were published before the run resumed and no longer hold."""
        context = self._context
        weights = context.lead.policy
        published = Published(
            window=context.play_window(),
            version=context.training.version,
            phase=decision.phase,
            max_turns=decision.max_turns,
            finished=decision.ends_run,
        )
        if self._channel.contradicts(published):
            number = published.window.number
            context.view.note(
                f"after iteration {number} the run goes on otherwise than before it was resumed; "
                "what was played ahead since then is dropped"
            )
            self._channel.withdraw(number)
            self._queue.forget_policies_after(number - 1)
        self._channel.publish(published, weights.shared.vector.to(weights.dtype))
        if context.newest_checkpoint != self._pruned_at:
            prune_queue(context, self._queue, decision)
            self._pruned_at = context.newest_checkpoint

    def _playable(self, it: NextIteration) -> bool:
        """Whether the other process would play the iteration, if it were not there."""
        newest = self._channel.newest()
        there = self._channel.read(it.policy) is not None
        return there and newest is not None and newest.window.number == it.number
