"""The training loop of a phase: play, update, record, decide, hand over the weights."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from agentrl_components.errors import Stopped
from agentrl_components.run.context import RunContext
from agentrl_components.run.reporting import report_iteration
from agentrl_components.schedule.decision import decide
from agentrl_components.schedule.horizon import total_iterations
from agentrl_components.schedule.learning_rate import learning_rate
from agentrl_components.schedule.record import Decision
from agentrl_components.stages.colocated import ColocatedRollouts
from agentrl_components.stages.evaluate import evaluate_phase, with_heldout
from agentrl_components.stages.iteration import NextIteration, iteration_record, next_iteration
from agentrl_components.stages.streamed import StreamedRollouts
from agentrl_components.trajectory.record import Trajectory


class Rollouts(Protocol):
    """Where the episodes of an iteration come from: this process, or another one."""

    def resume(self) -> None:
        """Find out which episodes exist already. Called once, first."""
        ...

    def collect(self, it: NextIteration) -> Sequence[Trajectory]:
        """The episodes of an iteration."""
        ...

    def load_weights(self, decision: Decision) -> None:
        """Hand the learner's weights to whoever plays next; `decision` is what follows."""
        ...

    def stream_metrics(self) -> dict[str, float]:
        """Metrics of the stream since the last call, for the record of the iteration. None unless
        episodes stream: results that do not depend on speed have no such metrics."""
        ...

    def measurements(self) -> dict[str, float]:
        """Metrics since the last call that differ from run to run, for the tracker only."""
        ...


def train(context: RunContext, phase: int, rollouts: Rollouts | None = None) -> Decision:
    """Run iterations until the schedule or an alarm ends `phase`, and return the decision that
    ended it. Every iteration is durable before the next one starts. Returns at once if the phase is
    over already. A run that resumed within an earlier phase, because later checkpoints are damaged
    or gone, first completes that one, with the evaluation after it. Raises `Stopped` before the
    first iteration or after any, with a checkpoint that covers all of them, if the run should
    end."""
    spec = context.spec
    decision = decide(spec.horizon, context.history, context.training.rolled_back)
    if not decision.ends_phase(phase):
        context.check_stop()
    rollouts = rollouts or open_rollouts(context, phase)
    rollouts.resume()
    rollouts.load_weights(decision)
    if decision.ends_phase(phase):
        return decision
    context.view.stage("train", total_iterations(spec.horizon))
    context.view.advance(len(context.history))
    while not decision.ends_phase(phase):
        if context.history and context.history[-1].phase < decision.phase:
            evaluate_phase(context, decision)  # the store has it, unless that phase was repeated
        began = time.monotonic()
        it = next_iteration(context)
        episodes = rollouts.collect(it)
        played = time.monotonic()
        rate, version = learning_rate(spec, it.number), context.training.version
        updated = context.learner.update(episodes, it.number, rate, version)
        learned = time.monotonic()
        record = iteration_record(context, it, episodes, updated, rollouts.stream_metrics())
        record = with_heldout(context, record)
        history = [*context.history, record]
        decision = decide(spec.horizon, history, context.training.rolled_back)
        record = context.commit(record, decision)  # rollback, journal, checkpoint
        decision = record.decision or decision
        seconds = {"rollout": played - began, "update": learned - played}
        # Before the hand-over: the playing process reads the last episodes once the phase is over.
        report_iteration(context, record, episodes, seconds, rollouts.measurements())
        rollouts.load_weights(decision)
        try:
            context.check_stop()
        except Stopped:
            context.save()
            raise
    return decision


def open_rollouts(context: RunContext, phase: int) -> Rollouts:
    """The rollouts of this process: streamed by samplers on Ray if they may be stale, else played
    between two updates."""
    actors = context.workers.actors
    if actors is None or not context.spec.rollout.max_staleness:
        return ColocatedRollouts(context)
    return StreamedRollouts(context, phase, actors)
