"""The decision after a phase, as the stage `expand` stores it."""

from iteration_records import iteration_record

from agentrl_components.run.journal import Journal
from agentrl_components.spec.fields.horizon import Alarm, Horizon, Phase
from agentrl_components.stages.expand import expand
from agentrl_components.storage.open import MemoryStore
from agentrl_components.storage.records import read_decision

HORIZON = Horizon(
    phases=(Phase(max_turns=3, iterations=2), Phase(max_turns=5, iterations=2)),
    alarms=(Alarm(action="rollback", window=1, entropy_below=0.1),),
)


def test_an_alarm_that_could_not_roll_back_does_not_keep_the_run_from_its_next_phase():
    """Regression: the checkpoint at the end of the phase was taken for one to roll back to. A run
    on one machine had succeeded after its first phase then, and one on a cluster failed."""
    store = MemoryStore()
    history = [
        iteration_record(iteration=0, phase=0, max_turns=3, entropy=0.5),
        iteration_record(iteration=1, phase=0, max_turns=3, entropy=0.05, checkpointed=True),
    ]
    decision = expand(Journal(store), HORIZON, history, [], 0)
    assert (decision.action, decision.phase, decision.max_turns) == ("advance", 1, 5)
    assert [alarm.signal for alarm in decision.alarms] == ["entropy_below"]
    assert read_decision(store, 0) == decision
