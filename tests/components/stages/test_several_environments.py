"""Runs with several environments: turn limits, metrics, and an environment that goes down."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from iteration_records import iteration_record

from agentrl_components.evaluation.heldout import heldout_evaluation
from agentrl_components.evaluation.summary import heldout_result
from agentrl_components.rollout.collector import Collector
from agentrl_components.run.context import RunContext
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.spec import AgentRLRun
from agentrl_components.spec.turn_limits import turn_limits
from agentrl_components.stages.evaluate import evaluate, with_heldout
from agentrl_components.stages.iteration import silent_groups
from agentrl_components.stages.rollout import play_iteration
from agentrl_components.stages.train import train
from agentrl_components.storage import keys
from agentrl_components.storage.open import MemoryStore
from agentrl_components.tracking.tracker import SilentTracker
from agentrl_components.workers.samplers import PoolSamplers
from agentrl_envs.environments.corridor import CorridorEnvironment, CorridorTasks
from agentrl_envs.errors import SessionError
from agentrl_envs.world import LocalWorld


def run_of(
    names=("a", "b"), algorithm="reinforce++", iterations=3, own=(), tasks=4, **settings
) -> AgentRLRun:
    environments = [{"name": name, "builtin": "corridor"} for name in names]
    if own:
        environments[-1]["maxTurns"] = list(own)
    return AgentRLRun.model_validate(
        {
            "apiVersion": "agentrl.dev/v1alpha1",
            "kind": "AgentRLRun",
            "metadata": {"name": "several"},
            "spec": {
                "model": {"source": "tiny", "context": 128},
                "environments": environments,
                "algorithm": {"name": algorithm, **settings},
                "rollout": {"tasks": tasks, "groupSize": 2, "actions": "admissible"},
                "update": {"miniBatch": 8},
                "horizon": {"phases": [{"maxTurns": 3, "iterations": iterations}]},
                "evaluation": {"tasks": 8},
                "compute": {"workers": 1},
            },
        }
    )


@contextmanager
def at_work(run: AgentRLRun, store: MemoryStore) -> Iterator[tuple[RunContext, SilentProgressView]]:
    view = SilentProgressView()
    with RunContext(run, store, SilentTracker(), view, lambda: None) as context:
        context.collector = Collector(
            context.spec,
            PoolSamplers(context.workers.pool),
            context.workers.instructions,
            pause_s=0.0,
        )
        yield context, view


class SwitchedTasks(CorridorTasks):
    """A corridor whose sessions fail while `down` is set."""

    down = True

    def environment(self):
        tasks = self

        class Session(CorridorEnvironment):
            def reset(self, task):
                if tasks.down:
                    tasks.refuse()
                return super().reset(task)

        return Session()

    def refuse(self):
        raise SessionError("connection refused")


class ClosedTasks(SwitchedTasks):
    """While `down` is set, tasks from index `dealt` on are not dealt either. Sessions fail after
    the first of them was asked for."""

    def __init__(self, dealt):
        super().__init__()
        self.dealt = dealt
        self.asked = threading.Event()

    def task(self, split, index):
        if self.down and index >= self.dealt:
            self.asked.set()
            raise SessionError("no tasks are dealt")
        return super().task(split, index)

    def refuse(self):
        self.asked.wait()
        super().refuse()


def with_switch(
    context: RunContext, name: str, tasks: SwitchedTasks | None = None
) -> SwitchedTasks:
    """Replace an environment, for the workers and for this process, by one with a switch."""
    tasks = tasks or SwitchedTasks()
    context.workers.worlds[name] = context.lead.worlds[name] = LocalWorld(tasks)
    return tasks


def names(episodes):
    return {name: sum(e.environment == name for e in episodes) for name in ("a", "b")}


def test_a_turn_limit_of_an_environment_replaces_that_of_the_schedule_phase_by_phase():
    spec = run_of(own=(2,)).spec
    assert [turn_limits(spec, phase) for phase in (0, 1, 5)] == [{"b": 2}] * 3
    longer = spec.model_copy(
        update={"environments": (spec.environments[1].model_copy(update={"max_turns": (2, 7)}),)}
    )
    assert [turn_limits(longer, phase)["b"] for phase in (0, 1, 2)] == [2, 7, 7]
    assert turn_limits(run_of().spec, 0) == {}


def test_episodes_are_played_to_the_limit_of_their_environment():
    with at_work(run_of(own=(1,)), MemoryStore()) as (context, _):
        episodes = play_iteration(context, 0, 3, 0)
        result = evaluate(context, "before")
    assert {(e.environment, e.max_turns) for e in episodes} == {("a", 3), ("b", 1)}
    assert max(len(e.turns) for e in episodes if e.environment == "b") == 1
    assert set(result.environments) == {"a", "b"}
    assert result.turn_limits == {"a": 3, "b": 1}


def test_an_evaluation_has_the_turn_limits_of_the_last_phase():
    spec = run_of(own=(2, 7)).spec
    (first,) = spec.horizon.phases
    phases = (first, first.model_copy(update={"max_turns": 6}))
    horizon = spec.horizon.model_copy(update={"phases": phases})
    found = heldout_evaluation(spec.model_copy(update={"horizon": horizon}), [])
    assert (found.max_turns, found.turn_limits) == (6, {"b": 7})


def test_an_evaluation_with_a_limit_of_its_own_uses_it_everywhere():
    spec = run_of(own=(2,)).spec
    assert heldout_evaluation(spec, []).turn_limits == {"b": 2}
    fixed = spec.evaluation.model_copy(update={"max_turns": 9})
    assert heldout_evaluation(spec.model_copy(update={"evaluation": fixed}), []).turn_limits == {}


def test_metrics_are_recorded_for_each_of_several_environments_and_not_for_one():
    for several in (("a", "b"), ("a",)):
        with at_work(run_of(several, iterations=1), MemoryStore()) as (context, _):
            train(context, 0)
            metrics = context.history[0].metrics
        found = {name for name in metrics if name.count("/") == 2}
        assert ("train/a/success" in found) == (len(several) > 1)
        assert not found or metrics["train/b/episodes"] == 4.0


def test_an_environment_that_goes_down_is_left_out_shared_out_and_taken_back():
    with at_work(run_of(), MemoryStore()) as (context, view):
        tasks = with_switch(context, "b")
        first = play_iteration(context, 0, 3, 0)
        # 4 episodes of a, 4 of b that are lost, and 4 of a in their place.
        assert names(first) == {"a": 8, "b": 4}
        assert view.notes[-1].startswith("environment b is down: 4 episodes are lost")
        assert "connection refused" in view.notes[-1]
        second = play_iteration(context, 1, 3, 0)
        assert names(second) == {"a": 8, "b": 0}
        tasks.down = False
        third = play_iteration(context, 2, 3, 0)
        assert view.notes[-1] == "environment b answers again"
        assert names(third) == {"a": 4, "b": 4}
        groups = [e.group for e in first]
        assert len(set(groups)) == 6


def test_an_environment_that_deals_no_tasks_is_reported_once_and_taken_back():
    with at_work(run_of(), MemoryStore()) as (context, view):
        tasks = with_switch(context, "b", ClosedTasks(dealt=0))
        for number in range(2):
            assert names(play_iteration(context, number, 3, 0)) == {"a": 8, "b": 0}
        down = (
            "environment b is down: it deals no tasks, and its tasks are shared out until it "
            "answers again: no tasks are dealt"
        )
        assert view.notes == [down]
        tasks.down = False
        assert names(play_iteration(context, 2, 3, 0)) == {"a": 4, "b": 4}
        assert view.notes == [down, "environment b answers again"]


def test_lost_episodes_are_replaced_though_the_environment_dealt_no_tasks_meanwhile():
    """The tasks of the next iteration are drawn while episodes are played."""
    with at_work(run_of(), MemoryStore()) as (context, view):
        with_switch(context, "b", ClosedTasks(dealt=2))
        assert names(play_iteration(context, 0, 3, 0)) == {"a": 8, "b": 4}
        play_iteration(context, 1, 3, 0)
        assert sum(note.startswith("environment b is down") for note in view.notes) == 1


def test_silent_groups_are_replaced_by_tasks_of_their_own_environments():
    with at_work(run_of(algorithm="grpo", tasks=12, refillRounds=1), MemoryStore()) as (context, _):
        first = play_iteration(context, 0, 3, 0)
        groups = {e.group: e.environment for e in first}
        silent = silent_groups(context, [e for e in first if e.group < 12])
    assert Counter(groups[group] for group in range(12)) == {"a": 6, "b": 6}
    replaced = Counter(groups[group] for group in silent)
    assert 0 < replaced["a"] < 6
    assert replaced["b"] > 0
    assert Counter(name for group, name in groups.items() if group >= 12) == replaced


def test_an_evaluation_without_an_environment_that_is_down_says_so():
    with at_work(run_of(), MemoryStore()) as (context, view):
        with_switch(context, "b")
        result = evaluate(context, "before")
    assert set(result.environments) == {"a"}
    assert (result.n, result.missing) == (4, ("b",))
    assert view.notes[-1] == "evaluation before: environment b is down and is not part of it"


def test_a_checkpoint_that_was_evaluated_without_an_environment_does_not_compete():
    """Sessions of b fail in the evaluation after the first iteration, and are back after it."""
    run = run_of(iterations=3)
    every = run.spec.evaluation.model_copy(update={"every": 1})
    update = run.spec.update.model_copy(update={"checkpoint_every": 1})
    spec = run.spec.model_copy(update={"evaluation": every, "update": update})
    run = run.model_copy(update={"spec": spec})
    with at_work(run, MemoryStore()) as (context, view):
        tasks = with_switch(context, "b")
        tasks.down = False
        first = iteration_record(iteration=0, phase=0, max_turns=3, success=0.5)
        tasks.down = True
        without = with_heldout(context, first)
        tasks.down = False
        second = with_heldout(context, first.model_copy(update={"iteration": 1}))
    assert (without.heldout, without.heldout_score) == (None, None)
    assert second.heldout is not None
    note = "evaluation iteration-000001: without all environments it does not count for the best"
    assert any(one.startswith(note) for one in view.notes)


def test_an_evaluation_lacks_only_environments_that_have_a_share_of_its_tasks():
    spec = run_of().spec
    one = spec.evaluation.model_copy(update={"tasks": 1})
    assert heldout_evaluation(spec, []).environments == ("a", "b")
    assert heldout_evaluation(spec.model_copy(update={"evaluation": one}), []).environments == (
        "a",
    )


def test_a_result_names_the_environment_that_dealt_no_tasks():
    with at_work(run_of(("a",)), MemoryStore()) as (context, _):
        episodes = play_iteration(context, 0, 3, 0)
    found = heldout_result("after", episodes, 2, ("a", "b"))
    assert (set(found.environments), found.missing) == ({"a"}, ("b",))
    assert found.without == ", without b, which was down"
    assert found.record_fields == {}


def test_a_run_with_one_environment_that_is_down_still_fails():
    with at_work(run_of(("b",)), MemoryStore()) as (context, _):
        with_switch(context, "b")
        with pytest.raises(Exception, match="8 of 8 episodes of iteration 0 were lost"):
            play_iteration(context, 0, 3, 0)


@pytest.mark.parametrize("algorithm", ["reinforce++", "grpo"])
def test_a_resumed_run_with_several_environments_equals_an_uninterrupted_one(algorithm):
    whole, parts = MemoryStore(), MemoryStore()
    with at_work(run_of(algorithm=algorithm, own=(2,)), whole) as (context, _):
        train(context, 0)
    stops = iter([None, "enough"])
    run = run_of(algorithm=algorithm, own=(2,))
    with (
        RunContext(
            run, parts, SilentTracker(), SilentProgressView(), lambda: next(stops, "enough")
        ) as context,
        pytest.raises(Exception, match="enough"),
    ):
        train(context, 0)
    with at_work(run, parts) as (context, _):
        assert context.resumed
        train(context, 0)
    for key in whole.list(keys.ITERATIONS):
        assert parts.get(key) == whole.get(key)


def test_the_result_of_one_environment_has_no_part_by_environment():
    with at_work(run_of(("a",)), MemoryStore()) as (context, _):
        episodes = play_iteration(context, 0, 3, 0)
    assert heldout_result("after", episodes, 2).environments == {}
