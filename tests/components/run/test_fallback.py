"""A run whose newest checkpoint is damaged goes on from the one before."""

import shutil
from pathlib import Path

import pytest
from corridor_run import manifest
from iteration_records import iteration_record

from agentrl_components.errors import StoreError
from agentrl_components.run.context import RunContext
from agentrl_components.run.journal import Journal
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.schedule.decision import decide
from agentrl_components.storage import checkpoint, keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.tracking.tracker import MemoryTracker

RUN = manifest(
    warmStart=None,
    horizon={"phases": [{"maxTurns": 2, "iterations": 9}], "window": 1},
    update={"checkpointEvery": 1, "keepLast": 1},
)


def opened(root: Path) -> RunContext:
    view = SilentProgressView()
    return RunContext(RUN, DirectoryStore(root), MemoryTracker(), view, lambda: None)


def commit(context: RunContext, success: float) -> None:
    """Commit an iteration that changed no weights."""
    number = len(context.history)
    record = iteration_record(iteration=number, phase=0, max_turns=2, success=success)
    decision = decide(RUN.spec.horizon, [*context.history, record])
    context.commit(record, decision)


def damage(root: Path, number: int) -> None:
    """Cut a byte off the weights of a checkpoint."""
    weights = root / keys.checkpoint(number, "model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1])


def test_checkpoints_that_are_saved_after_a_fallback_are_kept(tmp_path):
    """Regression: each was deleted at once, as an older one than the damaged one, so that every
    start began at the same place again."""
    store = DirectoryStore(tmp_path)
    with opened(tmp_path) as context:
        for success in (0.9, 0.1, 0.1, 0.1):
            commit(context, success)
    assert checkpoint.complete(store) == [1, 4]  # the best and the newest
    damage(tmp_path, 4)
    with opened(tmp_path) as context:
        assert (len(context.history), context.oldest_needed) == (1, 1)
        commit(context, 0.1)
        assert (context.newest_checkpoint, context.oldest_needed) == (2, 2)
    assert checkpoint.complete(store) == [1, 2]
    with opened(tmp_path) as context:
        assert len(context.history) == 2


def test_results_without_any_checkpoint_are_refused_and_kept(tmp_path):
    """Regression: the run began anew, and evaluations of the old weights were taken for those of
    the new ones."""
    store = DirectoryStore(tmp_path)
    with opened(tmp_path) as context:
        commit(context, 0.9)
    shutil.rmtree(tmp_path / keys.CHECKPOINTS)
    refused = (
        r"^file://\S+: holds iterations/000000\.json and no complete checkpoint to resume from; "
        r"restore one in checkpoints/, or start a new run"
    )
    with pytest.raises(StoreError, match=refused), opened(tmp_path):
        pass
    assert list(store.list(keys.ITERATIONS)) == ["iterations/000000.json"]


@pytest.mark.parametrize(
    ("name", "trained"),
    [("random", False), ("before", True), ("iteration-000003", True), ("after", True)],
)
def test_only_the_evaluation_of_the_random_policy_is_kept_by_a_run_that_begins(
    name, trained, tmp_path
):
    store = DirectoryStore(tmp_path)
    store.put(keys.evaluation(name), b"{}")
    if trained:
        with pytest.raises(StoreError, match=rf"holds evaluations/{name}\.json"):
            Journal(store).check_new()
    else:
        Journal(store).check_new()
