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
from agentrl_components.stages.colocated import load_policy, prune_queue, recover_window
from agentrl_components.stages.iteration import NextIteration
from agentrl_components.stages.rollout import play_iteration
from agentrl_components.stages.train import train
from agentrl_components.trajectory.record import Trajectory


def play_phase(context: RunContext, phase: int) -> int:
    """The playing side: play until `phase` is over. Returns the number of iterations played by this
    process."""
    played, loaded = 0, -1
    queue, channel = TrajectoryQueue(context.store), WeightChannel(context.store)
    with Heartbeat(context.store, "rollout") as heartbeat:
        published = heartbeat.wait_for(channel.newest)
        while not published.finished and published.phase <= phase:
            missing = first_missing(published, queue, channel)
            newer = newer_policy(channel, published)
            if newer is not None:
                # The learner may have deleted what it is past, so that is not missing.
                published = newer
            elif missing is None:
                published = heartbeat.wait_for(
                    lambda seen=published: newer_policy(channel, seen)  # type: ignore[misc]
                )
            else:
                number, policy = missing
                if policy != loaded:
                    load_policy(context, channel, policy)
                    loaded = policy
                episodes = play_iteration(context, number, published.max_turns, published.phase)
                if channel.read(policy) is None:
                    continue  # the learning side was restarted, and will train this policy anew
                queue.put(number, policy, episodes)
                context.view.advance()
                played += 1
                context.check_stop()
    return played


def first_missing(
    published: Published, queue: TrajectoryQueue, channel: WeightChannel
) -> tuple[int, int] | None:
    """The first (iteration, policy) that may be played, was not played, and whose weights are
    there."""
    for number, policy in published.window.iterations():
        if not queue.has(number, policy) and channel.read(policy) is not None:
            return number, policy
    return None


def newer_policy(channel: WeightChannel, than: Published) -> Published | None:
    """The newest published policy, if it is not `than`."""
    newest = channel.newest()
    return None if newest == than else newest


def learn_phase(context: RunContext, phase: int) -> Decision:
    """The learning side: prepare the run if it is new, then train on what the other side plays."""
    with Heartbeat(context.store, "update") as heartbeat:
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
        self._heartbeat.wait_for(lambda: self._queue.has(it.number, it.policy) or None)
        return self._queue.take(it.number, it.policy)

    def stream_metrics(self) -> dict[str, float]:
        """None: nothing streams."""
        return {}

    def measurements(self) -> dict[str, float]:
        """None: this side does not play."""
        return {}

    def load_weights(self, decision: Decision) -> None:
        """Publish the weights, and drop episodes in the store that checkpoints cover."""
        context = self._context
        weights = context.lead.policy
        published = Published(
            window=context.play_window(),
            version=context.training.version,
            phase=decision.phase,
            max_turns=decision.max_turns,
            finished=decision.ends_run,
        )
        self._channel.publish(published, weights.shared.vector.to(weights.dtype))
        if context.newest_checkpoint != self._pruned_at:
            prune_queue(context, self._queue, decision)
            self._pruned_at = context.newest_checkpoint
