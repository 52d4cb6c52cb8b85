"""Valid manifests with turn limits that long replies do not reach."""

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


def test_episodes_relabelled_with_hindsight_have_no_replies():
    short = {"phases": [{"maxTurns": 3, "iterations": 2}]}
    relabelled = {"algorithm": "hindsight", "maxTurns": 40}
    assert warnings(warmStart=relabelled, horizon=short) == []
