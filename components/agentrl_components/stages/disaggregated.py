"""rollout and update in a process each, meeting in the store.

Who plays is told which iterations may be played, and by which weights. How far that is ahead of
what is learnt from is a matter of the schedule (`lag`), so the numbers are those of the colocated
form, to the bit on CPU. Either side may die at any moment and come back.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentrl_components.exchange.heartbeat import Partner
from agentrl_components.exchange.trajectory_queue import TrajectoryQueue
from agentrl_components.exchange.weight_channel import Published, WeightChannel
from agentrl_components.run.context import RunContext
from agentrl_components.schedule.decision import Decision
from agentrl_components.schedule.staleness import Ahead
from agentrl_components.stages.before_training import begin
from agentrl_components.stages.colocated import forget, mend, take_weights
from agentrl_components.stages.rollout import rollout
from agentrl_components.stages.train import train
from agentrl_components.storage.store import Store
from agentrl_components.trajectory.record import Trajectory


def play_phase(context: RunContext, phase: int) -> int:
    """The playing side: play what may be played until `phase` is over. Returns how many iterations
    were played since this process began."""
    played, loaded = 0, -1
    queue, channel = TrajectoryQueue(context.store), WeightChannel(context.store)
    with Partner(context.store, "rollout") as partner:
        at = partner.until(channel.newest)
        while not at.finished and at.phase <= phase:
            wanted = missing(at, queue, channel)
            newer = other(channel, at)
            if newer is not None:
                at = newer  # what it is past may be forgotten by now, and is not missing
            elif wanted is None:
                at = partner.until(lambda at=at: other(channel, at))  # type: ignore[misc]
            else:
                number, policy = wanted
                if policy != loaded:
                    take_weights(context, channel, policy)
                    loaded = policy
                queue.put(number, policy, rollout(context, number, at.max_turns))
                context.view.advance()
                played += 1
                context.pause_point()
    return played


def missing(
    at: Published, queue: TrajectoryQueue, channel: WeightChannel
) -> tuple[int, int] | None:
    """The first iteration that may be played and is not, and the policy that plays it."""
    for number, policy in at.ahead.plays():
        if not queue.has(number, policy) and channel.read(policy) is not None:
            return number, policy
    return None


def other(channel: WeightChannel, than: Published) -> Published | None:
    """The newest policy, if it is another."""
    newest = channel.newest()
    return None if newest == than else newest


def learn_phase(context: RunContext, phase: int) -> Decision:
    """The learning side: what comes before the first phase, then iteration after iteration of what
    the other side has played."""
    with Partner(context.store, "update") as partner:
        begin(context)
        return train(context, phase, Apart(context.store, partner))


class Apart:
    """A player that is met in the store: episodes from the queue, weights into the channel."""

    def __init__(self, store: Store, partner: Partner) -> None:
        self._partner = partner
        self._queue, self._channel = TrajectoryQueue(store), WeightChannel(store)
        self._covered = -1

    def resume(self, context: RunContext) -> None:
        """Begin the lag again where what was played is gone."""
        mend(context, self._queue, self._channel)

    def play(self, context: RunContext, ahead: Ahead, max_turns: int) -> Sequence[Trajectory]:
        """The episodes of iteration `ahead.number`, waited for."""
        number, policy = ahead.number, ahead.policy(ahead.number)
        self._partner.until(lambda: self._queue.has(number, policy) or None)
        return self._queue.take(number, policy)

    def moved(self, context: RunContext, decision: Decision) -> None:
        """Publish the weights as they are, and drop what checkpoints cover."""
        weights = context.lead.policy
        published = Published(
            ahead=context.ahead(),
            version=context.version,
            phase=decision.phase,
            max_turns=decision.max_turns,
            finished=decision.action in ("finish", "stop"),
        )
        self._channel.publish(published, weights.shared.vector.to(weights.dtype))
        if context.saved != self._covered:
            forget(context, self._queue, decision)
            self._covered = context.saved
