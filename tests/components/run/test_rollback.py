"""A rollback whose checkpoint cannot be read: a run that always came to it again would be lost."""

import shutil
from pathlib import Path

import pytest
from corridor_run import manifest
from iteration_records import iteration_record

from agentrl_components.run.context import RunContext
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.schedule.decision import decide
from agentrl_components.schedule.record import Decision
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.tracking.tracker import MemoryTracker

RUN = manifest(
    warmStart=None,
    horizon={
        "phases": [{"maxTurns": 2, "iterations": 9}],
        "alarms": [{"action": "rollback", "window": 1, "entropyBelow": 0.5}],
        "window": 1,
    },
    update={"checkpointEvery": 1, "keepLast": 9},
)


class Weights:
    """The weights of a run, as the number that was added to each since the start."""

    def __init__(self, context: RunContext) -> None:
        self.vector = context.lead.policy.shared.vector
        self.start = self.vector.clone()

    def add_one(self) -> None:
        self.vector += 1

    @property
    def added(self) -> int:
        return round((self.vector - self.start).mean().item())


def opened(root: Path) -> RunContext:
    view = SilentProgressView()
    return RunContext(RUN, DirectoryStore(root), MemoryTracker(), view, lambda: None)


def commit(context: RunContext, success: float, entropy: float = 0.9) -> Decision | None:
    """Commit an iteration. Returns the decision that was carried out."""
    number = len(context.history)
    record = iteration_record(
        iteration=number, phase=0, max_turns=2, success=success, score=success, entropy=entropy
    )
    history = [*context.history, record]
    decision = decide(RUN.spec.horizon, history, context.training.rolled_back)
    return context.commit(record, decision).decision


def begin(context: RunContext) -> Weights:
    """Three iterations: the second has the best checkpoint, and the first the next best."""
    weights = Weights(context)
    for success in (0.6, 0.8, 0.3):
        weights.add_one()
        commit(context, success)
    weights.add_one()
    return weights


def damage(root: Path, iteration: int) -> None:
    """Change a bit of the checkpoint after `iteration`."""
    file = root / keys.checkpoint(iteration + 1, "trainer/optimizer-master.safetensors")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def remove(root: Path, iteration: int) -> None:
    """Delete the checkpoint after `iteration`, as people do with a damaged one."""
    shutil.rmtree(root / keys.checkpoint(iteration + 1))


def test_a_rollback_restores_the_best_checkpoint(tmp_path):
    with opened(tmp_path) as context:
        weights = begin(context)
        decision = commit(context, 0.3, entropy=0.1)
        assert (decision.action, decision.checkpoint, weights.added) == ("rollback", 1, 2)
        assert context.view.notes == []


@pytest.mark.parametrize("spoil", [damage, remove])
def test_a_rollback_whose_checkpoint_is_unusable_goes_to_the_next_best(tmp_path, spoil):
    with opened(tmp_path) as context:
        weights = begin(context)
        spoil(tmp_path, 1)
        decision = commit(context, 0.3, entropy=0.1)
        assert (decision.action, decision.checkpoint, weights.added) == ("rollback", 0, 1)
        (note,) = context.view.notes
        assert note.startswith("checkpoints/000002/")
        assert note.endswith("; the run does not roll back to iteration 1")
        assert context.training.rolled_back == [0]
    stored = [one["checkpointed"] for one in context.journal.iterations()]
    assert stored == [True, False, True, False]
    with opened(tmp_path) as context:
        assert [one.checkpointed for one in context.history] == stored


def test_an_alarm_without_a_usable_checkpoint_is_only_recorded(tmp_path):
    with opened(tmp_path) as context:
        weights = begin(context)
        for iteration in range(3):
            damage(tmp_path, iteration)
        decision = commit(context, 0.3, entropy=0.1)
        assert (decision.action, decision.checkpoint, weights.added) == ("continue", None, 4)
        assert [alarm.action for alarm in decision.alarms] == ["rollback"]
        assert len(context.view.notes) == 3
        assert (context.training.rolled_back, context.training.after_rollback) == ([], False)
    with opened(tmp_path) as context:  # checkpoint 4 was saved of the weights as they were
        assert len(context.history) == 4
