"""The learning rate over a run: warm-up, decay and their joint."""

import pytest
from learner_bench import spec

from agentrl_components.schedule.learning_rate import (
    cosine_decay,
    critic_learning_rate,
    learning_rate,
    schedule_factor,
    warm_start_learning_rate,
)
from agentrl_components.spec import WarmStart


def rates(iterations=10, **update):
    horizon = {"phases": [{"maxTurns": 3, "iterations": iterations}]}
    of_run = spec(horizon=horizon, update={"learningRate": 1e-3, **update})
    return [learning_rate(of_run, i) for i in range(iterations)]


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_the_rate_does_not_jump_at_the_end_of_the_warm_up(schedule):
    found = rates(schedule=schedule, warmupIterations=5, finalShare=0.1)
    assert found[:5] == pytest.approx([2e-4, 4e-4, 6e-4, 8e-4, 1e-3])
    assert found[5] == pytest.approx(1e-3)  # without the correction 5e-4 for linear
    assert found[5:] == sorted(found[5:], reverse=True)
    assert found[-1] == pytest.approx(1e-4)


def test_without_warm_up_the_linear_schedule_goes_from_the_rate_to_its_final_share():
    found = rates(iterations=4, schedule="linear", finalShare=0.1)
    assert found == pytest.approx([1e-3, 7e-4, 4e-4, 1e-4])


def test_a_constant_schedule_stays_at_the_rate_after_the_warm_up():
    assert rates(iterations=4, warmupIterations=2) == pytest.approx([5e-4, 1e-3, 1e-3, 1e-3])


def test_the_critics_rate_warms_up_and_decays_with_the_policys():
    of_run = spec(
        horizon={"phases": [{"maxTurns": 3, "iterations": 4}]},
        algorithm={"name": "ppo", "critic": {"learningRate": 0.5}},
        update={"schedule": "linear", "warmupIterations": 2, "finalShare": 0.2},
    )
    found = [critic_learning_rate(of_run, iteration) for iteration in range(4)]
    assert found == pytest.approx([0.25, 0.5, 0.5, 0.1])


def test_a_run_shorter_than_its_warm_up_ends_below_the_rate():
    short = spec(update={"warmupIterations": 10, "schedule": "linear"})
    assert schedule_factor(short, 1) == pytest.approx(0.2)


def test_cosine_decay_ends_at_a_tenth_of_the_rate():
    assert cosine_decay(0, 10, 1.0) == pytest.approx(1.0)
    assert cosine_decay(5, 10, 1.0) == pytest.approx(0.55)
    assert cosine_decay(10, 10, 1.0) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("source", "critic", "warm"), [("tiny", 1e-3, 3e-3), ("hf://a/b", 1e-5, 1e-5)]
)
def test_large_models_have_smaller_default_rates(source, critic, warm):
    of_run = spec(model={"source": source})
    assert critic_learning_rate(of_run, 0) == critic
    assert warm_start_learning_rate(of_run, WarmStart(algorithm="sft")) == warm
    assert warm_start_learning_rate(of_run, WarmStart(algorithm="sft", learning_rate=0.5)) == 0.5
