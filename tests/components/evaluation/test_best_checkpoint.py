"""Which checkpoint of a run is the best, by its records, its evaluations and its checkpoints."""

import pytest
from heldout_results import heldout_result
from iteration_records import iteration_record

from agentrl_components.errors import StoreError
from agentrl_components.evaluation.best_checkpoint import best_number, name_at_phase_end
from agentrl_components.schedule.record import Decision
from agentrl_components.storage import keys
from agentrl_components.storage.open import MemoryStore


def stored(checkpoints, **evaluations):
    """A store with these checkpoints and the held-out success of these evaluations; an evaluation
    whose success is negative has its absolute value, without an environment."""
    store = MemoryStore()
    for number in checkpoints:
        store.put(keys.checkpoint(number, keys.MANIFEST), b"{}")
    for name, success in evaluations.items():
        missing = ("rooms",) if success < 0 else ()
        result = heldout_result(name.replace("_", "-"), abs(success), missing=missing)
        store.put(keys.evaluation(result.name), result.model_dump_json().encode())
    return store


def record(iteration, success, action="continue", phase=0, after=None, **fields):
    """A record with a checkpoint; `after` is the phase of the next iteration."""
    decision = Decision(
        action=action, phase=phase if after is None else after, max_turns=4, reason=""
    )
    return iteration_record(
        iteration=iteration,
        phase=phase,
        max_turns=4,
        success=success,
        decision=decision,
        **{"checkpointed": True, **fields},
    )


def ended(action="finish", **last):
    """Four iterations of one phase, evaluated after the second one."""
    return [
        record(0, 0.9, checkpointed=False),
        record(1, 0.9, heldout=0.5),
        record(2, 0.9, checkpointed=False),
        record(3, 0.1, action, **last),
    ]


@pytest.mark.parametrize(("after", "best"), [(0.6, 4), (0.5, 4), (0.4, 2)])
def test_the_evaluation_at_the_end_of_the_run_counts(after, best):
    assert best_number(stored([0, 2, 4], after=after), ended(), 1) == best


def test_the_evaluation_of_restored_weights_is_not_that_of_the_iteration_before_the_rollback():
    """Iteration 3 ends a phase with a rollback to the checkpoint of iteration 1."""
    history = ended("rollback", after=1, checkpointed=False)
    store = stored([0, 2, 4], iteration_000004=0.1, iteration_000004_restored=0.9)
    assert best_number(store, history, 1) == 2
    decision = history[-1].decision
    assert name_at_phase_end(decision, 4) == "iteration-000004"
    assert name_at_phase_end(decision, 4, restored=True) == "iteration-000004-restored"


def test_an_evaluation_that_lacks_an_environment_is_not_compared_with_others():
    """The others may be easier: 0.9 without one of them is no better than 0.5 with all."""
    assert best_number(stored([0, 2, 4], after=-0.9), ended(), 1) == 2


def test_until_the_last_checkpoint_is_evaluated_an_evaluated_one_is_the_best():
    assert best_number(stored([0, 2, 4]), ended(), 1) == 2


def test_of_a_run_that_an_alarm_stopped_the_evaluation_after_its_last_iteration_counts():
    assert best_number(stored([0, 2, 4], iteration_000004=0.6), ended("stop"), 1) == 4


def test_evaluations_at_the_end_of_phases_precede_success_in_training():
    """Two phases of two iterations without `evaluation.every`; training succeeds less often at the
    longer horizon of the second."""
    first = [record(0, 0.8), record(1, 0.9, "advance", after=1)]
    second = [record(2, 0.3, phase=1), record(3, 0.5, "finish", phase=1)]
    checkpoints = [0, 1, 2, 3, 4]
    assert best_number(stored(checkpoints), first, 1) == 2
    assert best_number(stored(checkpoints, iteration_000002=0.4), [*first, *second[:1]], 1) == 2
    whole = stored(checkpoints, iteration_000002=0.4, after=0.7)
    assert best_number(whole, [*first, *second], 1) == 4


def test_an_evaluation_of_iterations_that_are_repeated_does_not_count():
    """A run that resumes after iteration 2 of 4 finds the evaluation after the fourth."""
    assert best_number(stored([0, 1, 2, 4], after=0.9), [record(0, 0.9), record(1, 0.2)], 1) == 1


def test_weights_that_a_rollback_discarded_are_no_candidate():
    """Checkpoint 2 holds the weights of checkpoint 1."""
    history = [
        record(0, 0.4, heldout=0.5),
        record(1, 0.4, "rollback", after=1, heldout=0.9, checkpointed=False),
    ]
    assert best_number(stored([0, 1, 2], iteration_000002=0.9), history, 1) == 1


def test_a_checkpoint_that_is_not_in_the_store_is_no_candidate():
    assert best_number(stored([0, 2], after=0.6), ended(), 1) == 2


def test_without_a_checkpoint_of_an_iteration_the_newest_is_the_best():
    assert best_number(stored([]), [], 1) == 0
    assert best_number(stored([0]), [], 1) == 0
    assert best_number(stored([0, 10]), [], 1) == 0  # 10 is damaged, and the run resumed from 0
    interrupted = [record(0, 0.5, checkpointed=False)]
    assert best_number(stored([0, 1]), interrupted, 1) == 1


def test_an_equal_success_with_a_higher_mean_score_is_better():
    store = stored([2, 4])
    result = heldout_result("after", 0.5, score=0.7)
    store.put(keys.evaluation("after"), result.model_dump_json().encode())
    assert best_number(store, ended(), 1) == 4
    history = ended()
    history[1] = history[1].model_copy(update={"heldout_score": 0.8})
    assert best_number(store, history, 1) == 2


def test_a_damaged_evaluation_is_named():
    store = stored([2, 4])
    store.put(keys.evaluation("after"), b"{}")
    with pytest.raises(StoreError, match=r"evaluations/after\.json"):
        best_number(store, ended(), 1)
