"""A context that is too small for the dialogue is counted and reported, not just success 0."""

import json

from corridor_run import manifest

from agentrl_components.run.progress import SilentProgressView
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.tracking.tracker import MemoryTracker
from agentrl_pipelines.local.run import run_local


def test_episodes_that_fill_the_context_are_counted_and_warned_of(tmp_path):
    """15 turns with observations take more than 64 tokens: unsolved episodes fill the context."""
    view = SilentProgressView()
    run = manifest(
        model={"context": 64},
        warmStart=None,
        rollout={"maxTokensPerTurn": 9},  # longer than what is left of the context at the end
        horizon={"phases": [{"maxTurns": 15, "iterations": 2}]},
        evaluation={"tasks": 6, "every": 0},
    )
    report = run_local(run, tmp_path, view, MemoryTracker())
    after = report.heldout.after
    assert after is not None
    assert 0 < after.out_of_tokens <= 6
    record = json.loads(DirectoryStore(tmp_path / "store").get(keys.iteration(0)))
    share = record["metrics"]["train/out_of_tokens"]
    assert 0 < share <= 1
    warnings = [note for note in view.notes if "filled the context of 64 tokens" in note]
    assert any(
        note.startswith(f"evaluation after: {after.out_of_tokens} of 6 episodes")
        for note in warnings
    )
    training = [note for note in warnings if "of the episodes of iteration" in note]
    assert [note.split("% of")[0] for note in training] == [f"{100 * share:.0f}"]  # once a phase
    assert all("raise spec.model.context" in note for note in warnings)
