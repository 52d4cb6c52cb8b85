"""Optimizer steps that are skipped because their gradients are not finite are not passed over."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite, nan

import pytest
from text_episode import episode

from agentrl_components.errors import RunError
from agentrl_components.run.context import RunContext
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.spec import parse
from agentrl_components.stages.train import train
from agentrl_components.stages.warm_start import learn, warm_start
from agentrl_components.storage.open import MemoryStore
from agentrl_components.tracking.tracker import MemoryTracker
from agentrl_components.update.learner import Learner
from agentrl_components.warmstart.imitation import imitation_example


class SkippingTrainers:
    """Trainers that skip the optimizer steps of the policy from `first` up to `end`."""

    def __init__(self, trainers, first=0, end=1000):
        self._trainers, self._skipped, self._steps = trainers, range(first, end), 0

    def __getattr__(self, name):
        return getattr(self._trainers, name)

    def step(self, model, learning_rate):
        self._steps += 1
        skipped = self._steps - 1 in self._skipped
        return nan if skipped else self._trainers.step(model, learning_rate)


@contextmanager
def at_work(**settings: object) -> Iterator[tuple[RunContext, MemoryTracker, SilentProgressView]]:
    manifest = {
        "apiVersion": "agentrl.dev/v1alpha1",
        "kind": "AgentRLRun",
        "metadata": {"name": "skips"},
        "spec": {
            "model": {
                "context": 128,
                "tiny": {"layers": 1, "hidden": 24, "heads": 3, "intermediate": 32},
            },
            "environments": [{"name": "corridor", "builtin": "corridor"}],
            "algorithm": {"name": "reinforce++"},
            "horizon": {"phases": [{"maxTurns": 3, "iterations": 4}]},
            "rollout": {"tasks": 2, "groupSize": 2, "maxTokensPerTurn": 4},
            "compute": {"device": "cpu", "workers": 1},
            **settings,
        },
    }
    tracker, view = MemoryTracker(), SilentProgressView()
    with RunContext(parse(manifest), MemoryStore(), tracker, view, lambda: None) as context:
        yield context, tracker, view


WARM = {"algorithm": "filtered-imitation", "batch": 2, "learningRate": 0.01}


def demonstrations(count):
    """`count` examples of the same episode."""
    return [imitation_example(episode(("look", "left", 1.0, True)), 1.0)] * count


def test_the_loss_of_a_warm_start_is_recorded_by_step_and_shown():
    with at_work(warmStart=WARM) as (context, tracker, view):
        steps = learn(context, context.spec.warm_start, demonstrations(20), first=5)
    losses = [tracker.recorded[step]["warmstart/loss"] for step in range(5, 15)]
    assert steps == len(tracker.recorded) == 10
    assert losses[-1] < losses[0]
    shown = f"loss {losses[0]:.4g} at first and {losses[-1]:.4g} at last, in 10 steps"
    assert view.notes == [f"warm start: {shown}"]
    assert all("warmstart/skipped_steps" not in values for values in tracker.recorded.values())


def test_skipped_steps_of_a_warm_start_are_counted():
    with at_work(warmStart=WARM) as (context, tracker, view):
        trainers = SkippingTrainers(context.workers.trainers, first=1, end=3)
        context.learner = Learner(context.spec, trainers)
        learn(context, context.spec.warm_start, demonstrations(8))
    counts = [tracker.recorded[step].get("warmstart/skipped_steps") for step in range(4)]
    assert counts == [None, 1.0, 2.0, 2.0]
    assert view.notes[0].endswith("4 steps; 2 were skipped, as their gradients were not finite")


def test_a_warm_start_whose_steps_are_all_skipped_is_an_error():
    with at_work(warmStart=WARM) as (context, _, _):
        context.learner = Learner(context.spec, SkippingTrainers(context.workers.trainers))
        examples = demonstrations(4)
        with pytest.raises(RunError, match=r"all 2 optimizer steps were skipped.*learningRate"):
            warm_start(context, lambda _: examples)


def test_a_warm_start_without_anything_to_imitate_says_so():
    with at_work(warmStart=WARM) as (context, tracker, view):
        warm_start(context, lambda _: [])
    assert view.notes == ["warm start: there was nothing to imitate; the weights are as before"]
    assert tracker.recorded == {}


def test_three_iterations_in_a_row_without_a_finite_gradient_are_noted_once():
    with at_work() as (context, _, view):
        context.learner = Learner(context.spec, SkippingTrainers(context.workers.trainers))
        train(context, 0)
        history = context.history
    assert [one.all_skipped for one in history] == [True] * 4
    assert not any(isfinite(one.grad_norm) for one in history)
    notes = [note for note in view.notes if "changed no weights" in note]
    assert [note.split(":")[0] for note in notes] == ["the last 3 iterations changed no weights"]


def test_an_iteration_with_one_finite_gradient_has_changed_the_weights():
    with at_work(update={"epochs": 2}) as (context, _, _):
        trainers = SkippingTrainers(context.workers.trainers, first=1)
        context.learner = Learner(context.spec, trainers)
        train(context, 0)
        history = context.history
    assert [one.all_skipped for one in history] == [False, True, True, True]
    assert history[0].metrics["update/skipped_steps"] == 1.0
