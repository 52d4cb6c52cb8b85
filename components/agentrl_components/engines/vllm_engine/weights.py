"""Load new weights into a running vLLM, in one call or bucket by bucket."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from agentrl_components.engines.weight_change import WeightChange
from agentrl_components.errors import EngineError, ModelError
from agentrl_components.model.causal_model import TIED_HEAD
from agentrl_components.model.load import has_tied_head, unread_patterns, weight_files

MISFITS = (EngineError, ValueError, KeyError, AssertionError)
"""Exceptions of weights that do not fit the model: every engine would raise them."""
FAILURES = (RuntimeError, TimeoutError)
"""Exceptions of an engine whose device or process has failed, or that weights do not reach: another
engine may load them."""
RECEIVE_S = 600.0
"""How long the worker processes of an engine over several GPUs may take to load what one call
brings or describes. If one of them fails alone, NCCL makes the others wait for ever, and trainers
for them: these give up later (`sharded.rank.TIMEOUT`), so that the engine's error is the one seen.
"""


def stored_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Shape of every weight in the folder's files, by name, without a tied head: trainers do not
    have it, whether or not the files do.

    Raises:
        ModelError: a file cannot be read.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for path in weight_files(folder):
        try:
            with safe_open(path, framework="pt") as shard:
                names = shard.keys()
                shapes |= {name: tuple(shard.get_slice(name).get_shape()) for name in names}
        except (OSError, SafetensorError) as error:
            raise ModelError(f"{path}: cannot be read: {error}") from error
    if TIED_HEAD in shapes and has_tied_head(folder):
        del shapes[TIED_HEAD]
    return shapes


def required_names(folder: Path, stored: Collection[str]) -> frozenset[str]:
    """Those of the weights `stored` in the folder's files that a hand-over must bring. Neither
    trainers nor vLLM have the others, such as layers for multi-token prediction.

    Raises:
        ModelError: config.json cannot be read.
        ArchitectureError: it is not of a causal language model that transformers knows.
    """
    unread = unread_patterns(folder)
    return frozenset(name for name in stored if not any(re.search(one, name) for one in unread))


def check(
    shapes: Mapping[str, tuple[int, ...]],
    required: Collection[str],
    weights: Mapping[str, torch.Tensor],
) -> None:
    """Check that `weights` have names and shapes of `shapes`, and all names of `required`. vLLM
    itself would fail halfway, or ignore missing weights.

    Raises:
        EngineError: names every weight that is missing, unknown or has another shape.
    """
    refuse(missing(required, weights.keys()) + misfits(shapes, weights))


def missing(required: Collection[str], names: Collection[str]) -> list[str]:
    """What is wrong if only the weights `names` are there."""
    return [f"{name} is missing" for name in sorted(set(required) - set(names))]


def misfits(
    shapes: Mapping[str, tuple[int, ...]], weights: Mapping[str, torch.Tensor]
) -> list[str]:
    """What is wrong with some weights."""
    return misshapen(shapes, {name: tuple(tensor.shape) for name, tensor in weights.items()})


def misshapen(
    shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, tuple[int, ...]]
) -> list[str]:
    """What is wrong with the names and shapes of some weights."""
    mistakes = []
    for name, shape in given.items():
        if name in shapes and shape != shapes[name]:
            mistakes.append(f"{name} has shape {shape}, not {shapes[name]}")
        if name not in shapes and name != TIED_HEAD:
            mistakes.append(f"{name} is unknown")
    return mistakes


def refuse(mistakes: list[str]) -> None:
    """Raise `EngineError` if there are mistakes."""
    if mistakes:
        raise EngineError(f"the new weights do not fit the model: {'; '.join(mistakes)}")


def sleep(keeps_weights: bool, engine: Any) -> None:
    """Free the device memory of weights and of cached keys and values. With `keeps_weights` `wake`
    brings the weights back; otherwise new ones are loaded after it. Call it between two steps,
    without pending replies."""
    engine.sleep(level=1 if keeps_weights else 2)


def wake(engine: Any) -> None:
    """Take device memory for weights again. What this process's trainer has freed is given back to
    the device first."""
    torch.cuda.empty_cache()
    engine.wake_up(tags=["weights"])


def wake_cache(engine: Any) -> None:
    """Take device memory for cached keys and values again. Call it after weights were loaded, which
    needs memory for a while."""
    engine.wake_up(tags=["kv_cache"])


def start(engine: Any) -> None:
    """Begin to load weights. Call this and the following functions between two steps. Pending
    replies pause until `finish`."""
    engine.collective_rpc("synchronize_device")  # vLLM may have begun the next step of such replies
    engine.collective_rpc("start_weight_update")


def load_part(
    shapes: Mapping[str, tuple[int, ...]], weights: Mapping[str, torch.Tensor], engine: Any
) -> None:
    """Load some weights. They are copied when all weights of their layer are there. Raises
    `EngineError` if they do not fit."""
    refuse(misfits(shapes, weights))
    # A literal, because importing `weight_backend` imports vLLM.
    receive({"weights": list(weights.items())}, engine)


def load_changes(
    shapes: Mapping[str, tuple[int, ...]], changes: Collection[WeightChange], engine: Any
) -> None:
    """Write new values of some entries of weights. Raises `EngineError` if they do not fit."""
    refuse(misshapen(shapes, {change.name: change.shape for change in changes}))
    receive({"changes": list(changes)}, engine)


def receive(update: Mapping[str, Any], engine: Any) -> None:
    """Have the workers load what `update` brings or describes."""
    engine.collective_rpc("update_weights", timeout=RECEIVE_S, kwargs={"update_info": update})


def finish(required: Collection[str], loaded: Collection[str], name: str, engine: Any) -> None:
    """End loading, and `use` the weights. Raises `EngineError` if some of `required` were
    not loaded."""
    refuse(missing(required, loaded))
    end(engine)
    use(name, engine)


def end(engine: Any) -> None:
    """End loading. A layer that has some of its new weights, but not all, is left with arbitrary
    values in the place of the others."""
    engine.collective_rpc("finish_weight_update")
    engine.collective_rpc("synchronize_device")  # the caller may change its tensors from now on


def use(name: str, engine: Any) -> None:
    """Use what was loaded from now on: outputs call it `name`, and cached keys and values of
    earlier weights are dropped. vLLM computes those of paused replies again, and drops a token
    that it was sampling for them with the earlier weights."""
    engine.set_weight_version(name)
    if not engine.reset_prefix_cache(reset_running_requests=True):
        raise RuntimeError("the prefix cache is in use and still has keys of the old version")


def join(group: Mapping[str, Any], engine: Any) -> None:
    """Join a process group of the NCCL backend, in the place of an earlier one."""
    engine.collective_rpc("shutdown_weight_transfer_engine")
    engine.collective_rpc("init_weight_transfer_engine", kwargs={"init_info": dict(group)})
