"""Valid manifests that may not do what their author wants."""

import pytest

from agentrl_components.spec import RunSpec
from agentrl_components.spec.rules.warnings import manifest_warnings


def warnings(**changes):
    usual = {
        "environments": [{"name": "walk", "builtin": "corridor"}],
        "horizon": {
            "phases": [{"maxTurns": 3, "iterations": 2}, {"maxTurns": 30, "iterations": 2}]
        },
        "model": {"context": 10752},
        "rollout": {"maxTokensPerTurn": 512},
    }
    return [str(one) for one in manifest_warnings(RunSpec.model_validate(usual | changes))]


def test_the_longest_phase_is_warned_of_if_its_replies_can_fill_the_context():
    assert warnings() == [
        "spec.horizon.phases[1].maxTurns: 30 turns of at most 512 tokens are 15,360 tokens without "
        "observations, and an episode ends when it fills model.context, 10,752; raise "
        "spec.model.context, or lower maxTurns or spec.rollout.maxTokensPerTurn, unless replies "
        "are much shorter"
    ]
    # 21 turns of 512 tokens are 10,752: as many as the context has.
    assert len(warnings(horizon={"phases": [{"maxTurns": 21, "iterations": 2}]})) == 1
    assert warnings(horizon={"phases": [{"maxTurns": 20, "iterations": 2}]}) == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"evaluation": {"maxTurns": 40}}, "spec.evaluation.maxTurns"),
        (
            {"warmStart": {"algorithm": "filtered-imitation", "maxTurns": 40}},
            "spec.warmStart.maxTurns",
        ),
    ],
)
def test_turns_of_an_evaluation_and_of_a_warm_start_are_compared_too(changes, field):
    (warning,) = warnings(**changes, horizon={"phases": [{"maxTurns": 3, "iterations": 2}]})
    assert warning.startswith(f"{field}: 40 turns")


def test_turn_limits_of_environments_are_compared_in_the_place_of_the_schedule():
    short = {"phases": [{"maxTurns": 3, "iterations": 2}, {"maxTurns": 4, "iterations": 2}]}
    own = {"name": "own", "builtin": "corridor", "maxTurns": [30, 5]}
    (warning,) = warnings(environments=[own], horizon=short)
    assert warning.startswith("spec.environments[0].maxTurns: 30 turns of at most 512 tokens")
    # The schedule has 30 turns in its second phase.
    own["maxTurns"] = [3, 4]
    assert warnings(environments=[own]) == []
    other = {"name": "other", "builtin": "corridor"}
    (warning,) = warnings(environments=[own, other])
    assert warning.startswith("spec.horizon.phases[1].maxTurns: 30 turns")
    # There is no third phase.
    own["maxTurns"] = [3, 4, 30]
    assert warnings(environments=[own], horizon=short) == []


def test_episodes_relabelled_with_hindsight_have_no_replies():
    short = {"phases": [{"maxTurns": 3, "iterations": 2}]}
    relabelled = {"algorithm": "hindsight", "maxTurns": 40}
    assert warnings(warmStart=relabelled, horizon=short) == []


def interval(every, checkpoint_every, phases, **horizon):
    """The warnings about an evaluation after every `every` iterations."""
    return warnings(
        evaluation={"every": every},
        update={"checkpointEvery": checkpoint_every},
        horizon={"phases": [{"maxTurns": 3, "iterations": n} for n in phases]} | horizon,
    )


def test_weights_that_are_evaluated_without_a_checkpoint_are_warned_of():
    # 10, 20 and 30 are evaluated; checkpoints are 4, 8, 12, ..., so that only 20 has both.
    assert interval(10, 4, [35]) == [
        "spec.evaluation.every: is 10, and spec.update.checkpointEvery is 4: there is no "
        "checkpoint of the weights that are evaluated after iteration 10, so they cannot be kept "
        "as the best ones; set checkpointEvery to 10 or a number that divides it, or every to "
        "a multiple of 4"
    ]
    assert interval(10, 5, [35]) == interval(10, 10, [35]) == interval(0, 4, [35]) == []


def test_the_last_iteration_of_a_phase_has_a_checkpoint():
    assert interval(10, 15, [10, 5]) == []
    assert "after iteration 20" in interval(10, 15, [10, 20])[0]
    # The run ends after iteration 10: it is evaluated and saved there in any case.
    assert interval(10, 4, [10]) == []


def test_a_phase_that_may_end_early_has_no_known_last_iteration():
    assert len(interval(10, 15, [10, 10], advance="success")) == 1


def loaded(source, **options):
    rooms = {"name": "rooms", "builtin": "babyai", "options": options}
    return warnings(
        environments=[rooms],
        model={"source": source, "context": 10752},
        horizon={"phases": [{"maxTurns": 3, "iterations": 2}]},
    )


@pytest.mark.parametrize("source", ["file:///models/qwen", "s3://models/qwen", "models:/agent/1"])
def test_a_model_that_may_be_pretrained_is_warned_of_the_default_terse_text(source):
    (warning,) = loaded(source)
    assert warning.startswith("spec.environments[0].options.text: is missing: the default, terse")
    assert loaded(source, text="terse") == loaded(source, text="agentgym") == []


def test_a_tiny_model_reads_terse_text():
    assert loaded("tiny") == []


def alarm(iterations, **alarms):
    """The warnings about an alarm in phases of `iterations`."""
    phases = [{"maxTurns": 3, "iterations": n} for n in iterations]
    return warnings(horizon={"phases": phases, "alarms": [{"action": "rollback", **alarms}]})


def test_an_alarm_whose_windows_fit_into_no_phase_is_warned_of():
    """Its window is of 10 iterations: pinned turns need two of them in a phase."""
    assert alarm((15, 15, 15), turnsPinned=0.9) == [
        "spec.horizon.alarms[0].turnsPinned: needs 2 windows of 10 iterations in one phase, and "
        "the longest one has 15, so it never becomes active; set the window of the alarm to 7 or "
        "less"
    ]
    assert alarm((8, 8, 8), rewardDrop=0.3) == [
        "spec.horizon.alarms[0].rewardDrop: needs a window of 10 iterations in one phase, and the "
        "longest one has 8, so it never becomes active; set the window of the alarm to 8 or less"
    ]
    assert len(alarm((8, 8, 8), rewardDrop=0.3, turnsPinned=0.9)) == 2


def test_an_alarm_whose_windows_fit_into_a_phase_is_not_warned_of():
    assert alarm((8, 20), turnsPinned=0.9, rewardDrop=0.3) == []
    assert alarm((15, 15), turnsPinned=0.9, window=7) == []
    assert alarm((8, 8, 8), entropyBelow=0.1) == []  # compares no phases


def test_a_phase_that_an_alarm_may_hold_is_long_enough():
    assert alarm((15, 15, 15), action="hold", turnsPinned=0.9) == []


def warmups(critic, rising, name="ppo"):
    """The warnings about warm-ups of the critic alone and of the learning rate, in iterations."""
    algorithm = {"name": name} | ({"critic": {"warmupIterations": critic}} if critic else {})
    return warnings(
        algorithm=algorithm,
        update={"warmupIterations": rising},
        horizon={"phases": [{"maxTurns": 3, "iterations": 30}]},
    )


def test_a_learning_rate_that_has_risen_before_the_policys_first_step_is_warned_of():
    assert warmups(10, 10) == [
        "spec.update.warmupIterations: is 10, and only the critic is trained in the first 10 "
        "iterations, algorithm.critic.warmupIterations: the policy takes its first step with the "
        "full learning rate; raise it above 10, by the iterations in which the policy's rate shall "
        "rise"
    ]
    assert len(warmups(10, 5)) == 1
    # Its first step, in iteration 11, has 11/12 of the rate.
    assert warmups(10, 12) == []
    assert warmups(10, 0) == warmups(0, 5) == warmups(0, 5, "grpo") == []


@pytest.mark.parametrize(
    ("schedule", "advance", "warned"),
    [
        ("linear", "success", True),
        ("cosine", "plateau", True),
        ("linear", "iterations", False),
        ("constant", "success", False),
    ],
)
def test_a_rate_that_decays_beyond_the_end_of_phases_that_end_early_is_warned_of(
    schedule, advance, warned
):
    horizon = {"phases": [{"maxTurns": 3, "iterations": 20}], "advance": advance}
    found = warnings(horizon=horizon, update={"schedule": schedule})
    assert [one.partition(":")[0] for one in found] == ["spec.update.schedule"] * warned
