from __future__ import annotations

import pytest
from iteration_records import iteration_record

from agentrl_components.schedule.decision import decide
from agentrl_components.schedule.history import best_checkpoint
from agentrl_components.spec.fields.horizon import Alarm, Horizon, Phase


def horizon(*alarms, advance="iterations"):
    return Horizon(
        phases=(Phase(max_turns=3, iterations=2), Phase(max_turns=5, iterations=3)),
        advance=advance,
        window=1,
        alarms=alarms,
    )


def record(iteration, phase, **signals):
    return iteration_record(
        iteration=iteration,
        phase=phase,
        max_turns=(3, 5)[phase],
        **{"success": 0.5, "entropy": 0.05, **signals},
    )


def collapsing(action):
    return Alarm(action=action, window=1, entropy_below=0.1)


ONE = [record(0, 0, success=0.6, checkpointed=True)]
TWO = [*ONE, record(1, 0, success=0.4, checkpointed=True)]
FIVE = [*TWO, record(2, 1), record(3, 1), record(4, 1)]


def test_without_history_the_run_continues_in_phase_0():
    decision = decide(horizon(), [])
    assert (decision.action, decision.phase, decision.max_turns) == ("continue", 0, 3)


def test_a_phase_continues_then_the_horizon_grows_then_the_run_finishes():
    seen = [decide(horizon(), FIVE[:done]) for done in range(1, 6)]
    assert [(d.action, d.max_turns) for d in seen] == [
        ("continue", 3),
        ("advance", 5),
        ("continue", 5),
        ("continue", 5),
        ("finish", 5),
    ]
    assert seen[0].reason == "phase 1 has done 1 of 2 iterations"
    assert seen[1].reason == (
        "phase 1 is over after its 2 iterations: the horizon goes from 3 to 5 turns"
    )
    assert seen[4].reason == "the schedule is complete after 5 iterations"


def test_the_reason_names_the_success_that_was_reached():
    decision = decide(horizon(advance="success"), [record(0, 0, success=0.9)])
    assert decision.action == "advance"
    assert decision.reason == (
        "phase 1 is over, 90.0% success reaching 80.0%: the horizon goes from 3 to 5 turns"
    )


def test_the_reason_names_the_success_that_the_rule_compared():
    """Iteration 1 was without an environment: it does not count, for the rule nor in the reason."""
    rule = horizon(advance="success").model_copy(
        update={"phases": (Phase(max_turns=3, iterations=9), Phase(max_turns=5, iterations=9))}
    )
    two = rule.model_copy(update={"window": 2})
    seen = [record(i, 0, success=success) for i, success in enumerate((0.9, 0.1, 0.8))]
    out = seen[1].model_copy(update={"metrics": seen[1].metrics | {"train/b/episodes": 0.0}})
    decision = decide(two, [seen[0], out, seen[2]])
    assert decision.reason == (
        "phase 1 is over, 85.0% success reaching 80.0%: the horizon goes from 3 to 5 turns"
    )


def test_an_alarm_that_only_records_changes_nothing_but_is_reported():
    decision = decide(horizon(collapsing("record")), TWO)
    assert decision.action == "advance"
    assert [ring.signal for ring in decision.alarms] == ["entropy_below"]


def test_an_alarm_that_holds_keeps_the_horizon_and_nothing_else():
    held = horizon(collapsing("hold"))
    assert decide(held, ONE).action == "continue"
    decision = decide(held, TWO)
    assert (decision.action, decision.phase, decision.max_turns) == ("hold", 0, 3)
    assert decision.reason == (
        "the horizon stays at 3 turns: entropy per token averaged 0.05 over the last 1 iterations, "
        "below the bound of 0.1"
    )
    # It stops ringing: the horizon grows. At the end of the last phase there is nothing to hold.
    assert decide(held, [*TWO, record(2, 0, entropy=0.3)]).action == "advance"
    assert decide(held, FIVE).action == "finish"


def test_an_alarm_that_stops_ends_the_run_at_once():
    decision = decide(horizon(collapsing("stop")), ONE)
    assert decision.action == "stop"
    assert decision.reason.startswith("entropy per token averaged 0.05")


def test_a_rollback_goes_to_the_best_checkpoint_once_per_phase():
    back = horizon(collapsing("rollback"))
    decision = decide(back, FIVE[:3])
    assert (decision.action, decision.checkpoint, decision.max_turns) == ("rollback", 0, 5)
    assert decision.reason.endswith("back to the checkpoint of iteration 0")
    again = decide(back, FIVE[:3], rolled_back_phases={1})
    assert (again.action, again.checkpoint) == ("continue", None)
    assert [ring.action for ring in again.alarms] == ["rollback"]
    assert decide(back, FIVE[:3], rolled_back_phases={0}).action == "rollback"


def test_the_best_checkpoint_is_judged_by_heldout_success_where_it_was_measured():
    history = [
        record(0, 0, success=0.9, checkpointed=True),
        record(1, 0, success=0.2, heldout=0.5, checkpointed=True),
        record(2, 1),
    ]
    assert decide(horizon(collapsing("rollback")), history).checkpoint == 1


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ((0.5, 0.2, None), 0),  # nothing is solved: a higher score is better
        ((0.2, 0.5, None), 1),
        ((0.5, 0.5, None), 1),  # equal: the later one
        ((None, None, None), 2),  # the score says no more than the success
    ],
)
def test_of_checkpoints_with_equal_heldout_success_the_one_with_the_best_score_is_best(
    scores, best
):
    history = [
        record(i, 0, heldout=0.0, heldout_score=score, checkpointed=True)
        for i, score in enumerate(scores)
    ]
    assert best_checkpoint(history, 2) is history[best]


def test_success_decides_before_the_score_and_training_score_breaks_ties_too():
    solved = record(0, 0, heldout=0.1, heldout_score=0.1, checkpointed=True)
    near = record(1, 0, heldout=0.0, heldout_score=0.9, checkpointed=True)
    assert best_checkpoint([solved, near], 2) is solved
    # Means over two iterations: .3, .45 and .35.
    trained = [
        record(i, 0, success=0.0, score=score, checkpointed=True)
        for i, score in enumerate((0.3, 0.6, 0.1))
    ]
    assert best_checkpoint(trained, 2) is trained[1]


def test_there_is_no_rollback_without_a_checkpoint_or_after_the_schedule():
    back = horizon(collapsing("rollback"))
    assert decide(back, [record(0, 0)]).action == "continue"
    assert decide(back, FIVE).action == "finish"


@pytest.mark.parametrize("order", [("stop", "rollback", "hold"), ("hold", "rollback", "stop")])
def test_if_several_alarms_fire_stop_precedes_rollback_and_rollback_precedes_hold(order):
    alarms = [collapsing(action) for action in order]
    assert decide(horizon(*alarms), TWO).action == "stop"
    gentler = [alarm for alarm in alarms if alarm.action != "stop"]
    assert decide(horizon(*gentler), TWO).action == "rollback"


def test_deciding_twice_gives_the_same_decision():
    back = horizon(collapsing("rollback"))
    assert decide(back, FIVE[:3]) == decide(back, tuple(FIVE[:3]))


@pytest.mark.parametrize("done", [1, 2, 3])
@pytest.mark.parametrize("earlier", [False, True])
def test_the_checkpoint_that_is_saved_after_a_decision_does_not_change_it(done, earlier):
    """Regression: at the end of a phase without an earlier checkpoint, training advanced, and
    `expand` decided to roll back to the checkpoint that training had saved."""
    back = horizon(collapsing("rollback"))
    history = [
        one.model_copy(update={"checkpointed": earlier and one.iteration == 0})
        for one in FIVE[:done]
    ]
    before = history[-1].model_copy(update={"checkpointed": False})
    after = history[-1].model_copy(update={"checkpointed": True})
    decision = decide(back, [*history[:-1], before])
    assert decide(back, [*history[:-1], after]) == decision
    possible = earlier and done > 1
    planned = {1: "continue", 2: "advance", 3: "continue"}[done]
    assert decision.action == ("rollback" if possible else planned)
