"""What a checkpoint holds beside weights and optimizer."""

import json
import math

import pytest
import torch
from iteration_records import iteration_record

from agentrl_components.run import saved_state
from agentrl_components.run.saved_state import TrainingState
from agentrl_components.storage import checkpoint, keys
from agentrl_components.storage.open import MemoryStore


class OneWeight:
    """A learner and its trainers, of a model with one weight and no optimizer."""

    shards = None

    @property
    def trainers(self):
        return self

    def weights(self):
        yield "weight", torch.zeros(1, dtype=torch.bfloat16)

    def state(self, spool=None):
        return {}

    def restore(self, files):
        pass


def test_a_history_with_a_norm_that_is_not_finite_is_restored_and_is_json(tmp_path):
    store, learner = MemoryStore(), OneWeight()
    for name in ("model", "spool"):
        (tmp_path / name).mkdir()
    history = [
        iteration_record(iteration=i, phase=0, max_turns=3, grad_norm=norm)
        for i, norm in enumerate((math.nan, math.inf, 1.5))
    ]
    state = TrainingState(version=3, history=history)
    saved_state.save(store, tmp_path / "model", learner, state, tmp_path / "spool")

    stored = store.get(keys.checkpoint(3, checkpoint.PROGRESS))
    norms = [
        one["metrics"]["update/grad_norm"]
        for one in json.loads(stored, parse_constant=pytest.fail)["history"]
    ]
    assert norms == ["NaN", "Infinity", 1.5]
    resumed = saved_state.resume(store, learner, pytest.fail, tmp_path / "spool")
    assert repr(resumed) == repr(state)


def test_a_checkpoint_has_no_description_of_the_agent_that_the_run_began_from(tmp_path):
    """A model of MLflow's registry is described by MLmodel: how it is prompted, with which limits.
    That of its checkpoint is another agent."""
    store = MemoryStore()
    for name in ("model", "spool"):
        (tmp_path / name).mkdir()
    for name in ("config.json", "MLmodel"):
        (tmp_path / "model" / name).write_text("{}")
    state = TrainingState()
    saved_state.save(store, tmp_path / "model", OneWeight(), state, tmp_path / "spool")
    assert store.exists(keys.checkpoint(0, "config.json"))
    assert not store.exists(keys.checkpoint(0, "MLmodel"))
