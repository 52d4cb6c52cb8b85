"""rollout and update in a process each, meeting in the store.

In lock step: an iteration is played by the weights that the one before it left, so the numbers are
those of the colocated form, to the bit on CPU. Either side may die at any moment and come back.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentrl_components.context import RunContext
from agentrl_components.expansion import Decision
from agentrl_components.partner import Partner
from agentrl_components.stages.begin import begin
from agentrl_components.stages.rollout import rollout
from agentrl_components.stages.train import train
from agentrl_components.store import Store
from agentrl_components.trajectory import Trajectory
from agentrl_components.trajectory_queue import TrajectoryQueue
from agentrl_components.weight_channel import Published, WeightChannel


def play_phase(context: RunContext, phase: int) -> int:
    """The playing side: play what is published until `phase` is over. Returns how many iterations
    were played since this process began."""
    played = 0
    queue, channel = TrajectoryQueue(context.store), WeightChannel(context.store)
    with Partner(context.store, "rollout") as partner:
        at = partner.until(channel.newest)
        while not at.finished and at.phase <= phase:
            if not queue.has(at.iteration):
                context.lead.policy.shared.vector.copy_(channel.fetch(at))
                context.version = at.version
                queue.put(at.iteration, rollout(context, at.iteration, at.max_turns))
                context.view.advance()
                played += 1
            context.pause_point()
            after = at.iteration + 1
            at = partner.until(lambda after=after: channel.read(after))  # type: ignore[misc]
    return played


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

    def play(self, context: RunContext, number: int, max_turns: int) -> Sequence[Trajectory]:
        """The episodes of iteration `number`, waited for."""
        self._partner.until(lambda: self._queue.has(number) or None)
        return self._queue.take(number)

    def moved(self, context: RunContext, decision: Decision) -> None:
        """Publish the weights as they are, and drop what a checkpoint covers."""
        published = Published(
            iteration=len(context.history),
            version=context.version,
            phase=decision.phase,
            max_turns=decision.max_turns,
            finished=decision.action in ("finish", "stop"),
        )
        self._channel.publish(published, context.lead.policy.shared.vector)
        if context.saved != self._covered:
            self._queue.forget_before(context.saved)
            self._covered = context.saved
