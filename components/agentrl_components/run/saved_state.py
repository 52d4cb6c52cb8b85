"""Saves and restores the training state of a run as a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from agentrl_components.dialogue.open import GENERATION
from agentrl_components.model.load import INDEX
from agentrl_components.model.sources import DESCRIBED
from agentrl_components.schedule.history import best_checkpoint
from agentrl_components.schedule.record import IterationRecord
from agentrl_components.spec import RunSpec
from agentrl_components.storage import checkpoint, keys, tensors
from agentrl_components.storage.checkpoint import Checkpoint
from agentrl_components.storage.files import Files, StoredFile
from agentrl_components.storage.store import Store
from agentrl_components.update.learner import Learner

MODEL_FILES_LIMIT = 64 * 2**20
"""Largest file of the model folder, in bytes, that is copied into each checkpoint: configuration
and tokenizer files."""
GENERATION_TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")
"""What checkpoints keep of generation_config.json."""


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
    unlearnt: list[tuple[int, int]] = field(default_factory=list)
    """Where episodes stream: the groups that were started and not learnt from, in the order in
    which they were started, each as the iteration that it is of and its index there."""


def save(
    store: Store, model_folder: Path, learner: Learner, state: TrainingState, spool: Path
) -> None:
    """Write a checkpoint of the run as it stands between two iterations. `model_folder` is where
    the configuration and tokenizer files come from. Tensors are written to the folder `spool`
    first, so that they are not in memory a second time; ranks that have access to the store write
    theirs to it."""
    iteration = len(state.history)
    trainers = learner.trainers
    types: set[torch.dtype] = set()
    files = _model_files(model_folder)
    if GENERATION in files:
        files[GENERATION] = _without_sampling(files[GENERATION])
    files |= tensors.pack_weights(_noting_types(trainers.weights(), types), spool)
    if torch.float32 in types:
        files["config.json"] = _with_float32(files["config.json"])
    written: Callable[[], dict[str, StoredFile]] = dict
    if trainers.shards is None:
        files |= trainers.state(spool)
    else:
        written = partial(trainers.shards.write, keys.checkpoint(iteration))
    progress = {
        "version": state.version,
        "rolled_back": state.rolled_back,
        "after_rollback": state.after_rollback,
        "unlearnt": state.unlearnt,
        "history": [record.json_data() for record in state.history],
    }
    checkpoint.save(store, Checkpoint(iteration=iteration, files=files, progress=progress), written)


def resume(
    store: Store, learner: Learner, damaged: Callable[[str], None], spool: Path
) -> TrainingState | None:
    """Load weights and optimizer of the newest intact checkpoint, and return the rest of its state.
    None: there is no checkpoint. `damaged` is called with a message for each newer one that is
    damaged. Raises `StoreError` if all are."""
    leave = _left(learner)
    found = checkpoint.latest(store, damaged, spool, leave, partial(_load, learner))
    if found is None:
        return None
    return TrainingState(
        version=found.progress["version"],
        history=[IterationRecord.model_validate(one) for one in found.progress["history"]],
        rolled_back=list(found.progress["rolled_back"]),
        after_rollback=found.progress["after_rollback"],
        # Checkpoints of earlier versions have none.
        unlearnt=[(number, index) for number, index in found.progress.get("unlearnt", ())],
    )


def restore(store: Store, learner: Learner, iteration: int, spool: Path) -> None:
    """Load weights and optimizer of the checkpoint after `iteration` iterations."""
    _load(learner, checkpoint.load(store, iteration, spool, _left(learner)))


def restore_reference(store: Store, learner: Learner, iteration: int, spool: Path) -> None:
    """Make the policy of the checkpoint after `iteration` iterations the reference policy."""
    _load(learner, checkpoint.load(store, iteration, spool, _left(learner)), reference=True)


def _left(learner: Learner) -> Callable[[str], bool]:
    """Which files of a checkpoint the trainers read themselves."""
    shards = learner.trainers.shards
    return shards.covers if shards is not None else lambda _: False


def _load(learner: Learner, found: Checkpoint, *, reference: bool = False) -> None:
    trainers = learner.trainers
    if trainers.shards is not None and found.left:
        trainers.shards.read(found.left, reference=reference)
    elif reference:
        trainers.restore_reference(found.files)
    else:
        trainers.restore(found.files)


def prune(store: Store, spec: RunSpec, history: list[IterationRecord], best: int) -> None:
    """Delete the checkpoints that are not needed: kept are the newest `update.keepLast`, the best
    one, the one that a rollback would restore, checkpoint 0 and the last of each phase. The newest
    is the one that covers `history`."""
    phase_ends = {
        record.iteration + 1 for record, after in pairwise(history) if record.phase != after.phase
    }
    keep = {0, *phase_ends, best}
    restorable = best_checkpoint(history, spec.horizon.window)
    if restorable is not None:
        keep.add(restorable.iteration + 1)
    checkpoint.prune(store, spec.update.keep_last, keep, newest=len(history))


def _model_files(folder: Path) -> Files:
    """Configuration and tokenizer files of the model folder, without weights."""
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if path.is_file()
        and path.suffix not in (".safetensors", ".bin")
        # The folder may be one of our checkpoints, whose manifest lists other files, or from
        # MLflow's registry, which describes how another agent acts.
        and path.name not in (INDEX, keys.MANIFEST, DESCRIBED)
        and path.stat().st_size <= MODEL_FILES_LIMIT
    }


def _without_sampling(generation: bytes | Path) -> bytes | Path:
    """generation_config.json with its tokens only: servers and transformers would apply the top_k
    and the penalties of the model that the run began from, with which it was not trained."""
    assert isinstance(generation, bytes)
    stated = json.loads(generation)
    kept = {name: stated[name] for name in GENERATION_TOKENS if name in stated}
    return json.dumps(kept, indent=1).encode()


def _noting_types(
    weights: Iterable[tuple[str, Tensor]], types: set[torch.dtype]
) -> Iterator[tuple[str, Tensor]]:
    """The weights, whose types are added to `types`."""
    for name, weight in weights:
        types.add(weight.dtype)
        yield name, weight


def _with_float32(config: bytes | Path) -> bytes | Path:
    """config.json for float32 weights: transformers would round them to the type stated there."""
    assert isinstance(config, bytes)
    stated = json.loads(config)
    name = "torch_dtype" if "torch_dtype" in stated else "dtype"
    if stated.get(name, "float32") == "float32":
        return config
    return json.dumps(stated | {name: "float32"}, indent=1).encode()
