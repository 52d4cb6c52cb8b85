"""Saves and restores the training state of a run as a checkpoint."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import torch

from agentrl_components.model.load import WEIGHTS
from agentrl_components.schedule.history import best_checkpoint
from agentrl_components.schedule.record import IterationRecord
from agentrl_components.spec import RunSpec
from agentrl_components.storage import checkpoint, keys, tensors
from agentrl_components.storage.checkpoint import Checkpoint
from agentrl_components.storage.store import Store
from agentrl_components.update.learner import Learner

MODEL_FILES_LIMIT = 64 * 2**20
"""Largest file of the model folder, in bytes, that is copied into each checkpoint: configuration
and tokenizer files."""


@dataclass(slots=True)
class TrainingState:
    """What a checkpoint holds beside weights and optimizer."""

    version: int = 0
    """Updates that the weights have seen, including the rounds of a warm start."""
    history: list[IterationRecord] = field(default_factory=list)
    rolled_back: list[int] = field(default_factory=list)
    """Phases in which a rollback was done."""
    after_rollback: bool = False
    """The next iteration starts from restored weights."""


def save(
    store: Store, model_folder: Path, learner: Learner, state: TrainingState, spool: Path
) -> None:
    """Write a checkpoint of the run as it stands between two iterations. `model_folder` is where
    the configuration and tokenizer files come from. Tensors are written to the folder `spool`
    first, so that they are not in memory a second time."""
    files: tensors.Files = _model_files(model_folder)
    weights = learner.weights()
    if any(weight.dtype is torch.float32 for weight in weights.values()):
        files["config.json"] = _with_float32(files["config.json"])
    files[WEIGHTS] = tensors.pack(weights, WEIGHTS, spool)
    files |= learner.state(spool)
    checkpoint.save(
        store,
        Checkpoint(
            iteration=len(state.history),
            files=files,
            progress={
                "version": state.version,
                "rolled_back": state.rolled_back,
                "after_rollback": state.after_rollback,
                "history": [record.model_dump() for record in state.history],
            },
        ),
    )


def restore(found: Checkpoint, learner: Learner) -> TrainingState:
    """Load weights and optimizer of a checkpoint, and return the rest of its state."""
    learner.restore(found.files)
    return TrainingState(
        version=found.progress["version"],
        history=[IterationRecord.model_validate(one) for one in found.progress["history"]],
        rolled_back=list(found.progress["rolled_back"]),
        after_rollback=found.progress["after_rollback"],
    )


def prune(store: Store, spec: RunSpec, history: list[IterationRecord], best: int) -> None:
    """Delete the checkpoints that are not needed: kept are the newest `update.keepLast`, the best
    one, checkpoint 0 and the last of each phase."""
    phase_ends = {
        record.iteration + 1 for record, after in pairwise(history) if record.phase != after.phase
    }
    checkpoint.prune(store, spec.update.keep_last, {0, *phase_ends, best})


def best_number(spec: RunSpec, history: list[IterationRecord]) -> int:
    """The number of the best checkpoint; 0 if none was made in training."""
    best = best_checkpoint(history, spec.horizon.window)
    return best.iteration + 1 if best is not None else 0


def _model_files(folder: Path) -> tensors.Files:
    """Configuration and tokenizer files of the model folder, without weights."""
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if path.is_file()
        and path.suffix not in (".safetensors", ".bin")
        # The folder may be one of our checkpoints, whose manifest lists other files.
        and path.name not in ("model.safetensors.index.json", keys.MANIFEST)
        and path.stat().st_size <= MODEL_FILES_LIMIT
    }


def _with_float32(config: bytes | Path) -> bytes | Path:
    """config.json for float32 weights: transformers would round them to the type stated there."""
    assert isinstance(config, bytes)
    stated = json.loads(config)
    name = "torch_dtype" if "torch_dtype" in stated else "dtype"
    if stated.get(name, "float32") == "float32":
        return config
    return json.dumps(stated | {name: "float32"}, indent=1).encode()
