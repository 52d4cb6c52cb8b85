"""Rollouts that go on while the learner works: samplers on Ray play groups, and an update learns
from those that are completed first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from agentrl_components.rollout.metrics import check_lost, staleness
from agentrl_components.rollout.request import CollectRequest
from agentrl_components.run.context import RunContext
from agentrl_components.schedule.record import Decision
from agentrl_components.spec.turn_limits import turn_limits
from agentrl_components.stages.iteration import NextIteration
from agentrl_components.stages.rollout import (
    find_environments_that_are_back,
    note_environments_down,
    take_tasks,
)
from agentrl_components.streaming.group_stream import GroupStream
from agentrl_components.streaming.lead import Lead
from agentrl_components.trajectory.record import Trajectory

if TYPE_CHECKING:
    from agentrl_components.ray_workers.actors import Actors


class StreamedRollouts:
    """Keeps as many groups under way as the trainers need (`streaming.lead`), and at most those of
    the iterations that may be played before the next update (`schedule.staleness`). Groups that
    were not learnt from when a run was interrupted are played anew, before others: in a phase that
    no alarm and no early end cuts short, each is learnt from once."""

    def __init__(self, context: RunContext, phase: int, actors: Actors) -> None:
        self._context, self._phase, self._actors = context, phase, actors
        rollout = context.spec.rollout
        self._stream = GroupStream(
            actors.groups, size=rollout.tasks, max_staleness=rollout.max_staleness
        )
        self._lead = Lead(rollout.max_staleness)
        self._taken_at: float | None = None
        """When groups were last taken."""
        self._waited_s = 0.0
        self._measured_at = time.monotonic()
        self._measured: dict[str, float] = {}
        self._dropped = 0

    def resume(self) -> None:
        """Nothing to find: no episode outlives its process."""

    def collect(self, it: NextIteration) -> Sequence[Trajectory]:
        """The episodes of the groups that the iteration learns from."""
        context = self._context
        began = time.monotonic()
        groups = self._stream.take()
        self._follow_the_trainers(began, time.monotonic())
        learnt = {(members[0].iteration, members[0].group) for members in groups}
        unlearnt = context.training.unlearnt
        unlearnt[:] = [group for group in unlearnt if group not in learnt]
        episodes = [
            replace(episode, group=group, iteration=it.number)
            for group, members in enumerate(groups)
            for episode in members
        ]
        lags_S = staleness(episodes, context.training.version)
        self._measured = {
            "train/staleness_max": float(lags_S.max(initial=0)),
            "rollout/queue_depth": float(self._stream.waiting),
            "rollout/groups_under_way": float(self._stream.under_way),
            "rollout/lead": float(self._lead.updates),
        }
        note_environments_down(context, episodes)
        check_lost(episodes, context.spec.rollout.max_lost_share, of=f" of iteration {it.number}")
        return episodes

    def load_weights(self, decision: Decision) -> None:
        """Hand the weights to the samplers, and start the groups that may be played now. Groups
        that no update of their phase can learn from are dropped."""
        context = self._context
        over = decision.ends_phase(self._phase)
        if over or decision.action in ("advance", "rollback"):
            self._drop(decision)
        if over:
            return
        self._actors.samplers.hand_over(context.training.version)
        self._stream.poll()
        find_environments_that_are_back(context)
        self._fill(decision)

    def stream_metrics(self) -> dict[str, float]:
        """Idle shares, the depth of the queue, the oldest token, and the groups dropped, since the
        last call."""
        now = time.monotonic()
        seconds, waited = now - self._measured_at, self._waited_s
        self._measured_at, self._waited_s = now, 0.0
        dropped, self._dropped = self._dropped, 0
        return {
            **self._actors.load_metrics(),
            **self._measured,
            "rollout/groups_dropped": float(dropped),
            "update/idle_share": waited / max(seconds, 1e-9),
        }

    def measurements(self) -> dict[str, float]:
        """What hand-overs took since the last call."""
        return self._actors.hand_over_metrics()

    def _fill(self, decision: Decision) -> None:
        """Start the groups of the iterations that may be played, but for those that were started
        already. The tasks and seeds of a group are those of the iteration that it is started for,
        whichever iteration learns from it."""
        context, spec = self._context, self._context.spec
        window, size = context.play_window(), spec.rollout.tasks
        unlearnt = context.training.unlearnt
        in_stream = self._stream.under_way + self._stream.waiting  # none yet after a resume
        first = window.number + len(unlearnt) // size
        last = min(window.last, window.number + self._lead.updates)
        unlearnt += [(number, i) for number in range(first, last + 1) for i in range(size)]
        for iteration, groups in groupby(unlearnt[in_stream:], key=itemgetter(0)):
            request = CollectRequest(
                tasks=take_tasks(context, iteration),
                samples=spec.rollout.group_size,
                max_turns=decision.max_turns,
                turn_limits=turn_limits(spec, decision.phase),
                temperature=spec.rollout.temperature,
                iteration=iteration,
                purpose="train/0",
            )
            for _, index in groups:
                jobs = request.jobs(context.workers.instructions, [index])
                self._stream.start(jobs, request.rules(spec))

    def _follow_the_trainers(self, began: float, ended: float) -> None:
        """Adapt the lead to how long the trainers waited for groups, from `began` to `ended`."""
        self._waited_s += ended - began
        if self._taken_at is not None:
            self._lead.follow(
                waited_share=(ended - began) / max(ended - self._taken_at, 1e-9),
                spare_updates=self._stream.waiting / self._context.spec.rollout.tasks,
            )
        self._taken_at = ended

    def _drop(self, decision: Decision) -> None:
        dropped = self._stream.drop()
        self._dropped += dropped
        if dropped:
            self._context.view.note(
                f"{dropped} groups that were played ahead are dropped: {decision.reason}"
            )
