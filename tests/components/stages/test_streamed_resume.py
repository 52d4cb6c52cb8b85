"""Runs whose episodes stream, stopped and resumed, with samplers that complete groups in any
order."""

import random
from collections.abc import Mapping
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st
from iteration_records import iteration_record

from agentrl_components.rollout.episode import EpisodeState, trajectory
from agentrl_components.run.context import RunContext
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.schedule.decision import decide
from agentrl_components.spec import AgentRLRun
from agentrl_components.stages.iteration import next_iteration
from agentrl_components.stages.streamed import StreamedRollouts
from agentrl_components.storage import checkpoint
from agentrl_components.storage.open import MemoryStore
from agentrl_components.tracking.tracker import SilentTracker
from agentrl_envs.environments.corridor import CorridorTasks

TASKS, ITERATIONS = 3, 5


ONE_PHASE = {"phases": [{"maxTurns": 3, "iterations": ITERATIONS}]}


def run_of(
    lag: int, checkpoint_every: int, horizon: Mapping[str, object] = ONE_PHASE
) -> AgentRLRun:
    return AgentRLRun.model_validate(
        {
            "apiVersion": "agentrl.dev/v1alpha1",
            "kind": "AgentRLRun",
            "metadata": {"name": "stream"},
            "spec": {
                "model": {
                    "source": "tiny",
                    "context": 64,
                    "tiny": {
                        "layers": 1,
                        "hidden": 32,
                        "heads": 2,
                        "kvHeads": 1,
                        "intermediate": 32,
                    },
                },
                "environments": [{"name": "corridor", "builtin": "corridor"}],
                "rollout": {"tasks": TASKS, "groupSize": 2, "maxStaleness": lag},
                "update": {"checkpointEvery": checkpoint_every},
                "horizon": horizon,
                "compute": {"device": "cpu", "workers": 1},
            },
        }
    )


class ScriptedSamplers:
    """Implements `StreamingSamplers`: `order` chooses which group under way is completed next, and
    how many were completed before they are waited for."""

    def __init__(self, order):
        self.order = order
        self.playing = {}

    def start(self, number, jobs, rules):
        self.playing[number] = [trajectory(job, rules, EpisodeState()) for job in jobs]

    def wait(self):
        number = sorted(self.playing)[self.order() % len(self.playing)]
        return [(number, self.playing.pop(number))]

    def poll(self):
        completed = self.order() % (len(self.playing) + 1)
        return [group for _ in range(completed) for group in self.wait()]

    def cancel(self):
        self.playing.clear()


class NoHandOver:
    """Samplers whose weights do not matter."""

    def hand_over(self, version):
        pass


def learn(context, order, iterations, learnt):
    """Learn `iterations` iterations or fewer, to the end of the phase. `learnt` has the tasks of
    each iteration so far; those of iterations that are repeated are replaced."""
    actors = SimpleNamespace(groups=ScriptedSamplers(order), samplers=NoHandOver())
    rollouts = StreamedRollouts(context, 0, actors)
    horizon = context.spec.horizon
    decision = decide(horizon, context.history)
    rollouts.resume()
    rollouts.load_weights(decision)
    for _ in range(iterations):
        if decision.ends_phase(0):
            return
        it = next_iteration(context)
        episodes = rollouts.collect(it)
        learnt[it.number :] = [{e.group: e.task for e in episodes}.values()]
        context.training.version += 1
        record = iteration_record(iteration=it.number, phase=0, max_turns=it.max_turns)
        decision = decide(horizon, [*context.history, record])
        context.commit(record, decision)
        rollouts.load_weights(decision)


@given(
    seed=st.integers(0, 2**32),
    lag=st.integers(1, 3),
    checkpoint_every=st.integers(1, 2),
    stops=st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=3),
)
@settings(max_examples=20, deadline=None)
def test_each_group_is_learnt_from_once_wherever_a_run_is_stopped(
    seed, lag, checkpoint_every, stops
):
    """A run that is stopped saves a checkpoint; one that is killed does not."""
    store, learnt, chosen = MemoryStore(), [], random.Random(seed)

    def order():
        return chosen.randrange(12)

    run = run_of(lag, checkpoint_every)
    for iterations, saves in [*stops, (ITERATIONS, False)]:
        with RunContext(run, store, SilentTracker(), SilentProgressView(), lambda: None) as context:
            if not checkpoint.complete(store):
                context.save()  # as before the first iteration of every run
            del learnt[len(context.history) :]
            learn(context, order, iterations, learnt)
            if saves:
                context.save()
    deal = CorridorTasks()
    expected = [deal.task("train", i).id for i in range(TASKS * ITERATIONS)]
    assert sorted(task for tasks in learnt for task in tasks) == sorted(expected)


def test_groups_played_ahead_for_a_phase_that_ended_early_are_dropped_when_the_next_one_begins():
    """The stage of phase 1 resumed within phase 0, which success ends after two iterations of at
    most four: groups for the other two are under way by then."""
    phases = [{"maxTurns": 3, "iterations": 4}, {"maxTurns": 5, "iterations": 2}]
    early = {"phases": phases, "advance": "success", "successAbove": 0.8, "window": 1}
    run = run_of(2, 1, early)
    limits = []
    view = SilentProgressView()
    with RunContext(run, MemoryStore(), SilentTracker(), view, lambda: None) as context:
        actors = SimpleNamespace(groups=ScriptedSamplers(lambda: 0), samplers=NoHandOver())
        rollouts = StreamedRollouts(context, 1, actors)
        decision = decide(run.spec.horizon, context.history)
        rollouts.load_weights(decision)
        while not decision.ends_phase(1):
            it = next_iteration(context)
            limits.append({e.max_turns for e in rollouts.collect(it)})
            context.training.version += 1
            success = (0.2, 0.9, 0.2, 0.2)[it.number]
            record = iteration_record(
                iteration=it.number, phase=it.phase, max_turns=it.max_turns, success=success
            )
            decision = decide(run.spec.horizon, [*context.history, record])
            context.commit(record, decision)
            rollouts.load_weights(decision)
    assert limits == [{3}, {3}, {5}, {5}]
    assert ["played ahead are dropped: phase 1 is over" in note for note in view.notes] == [True]
