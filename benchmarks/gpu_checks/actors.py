"""Checks of runs whose trainers and samplers are Ray actors."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import psutil
from gpu_checks.place import Place, Skipped, require
from workload.models import SIZES, Size, make

from agentrl_components.run.progress import IterationProgress, SilentProgressView
from agentrl_components.schedule.record import IterationRecord
from agentrl_components.spec import AgentRLRun
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.tracking.tracker import MemoryTracker
from agentrl_pipelines.local.run import run_local

ITERATIONS = 3
SIZE = Size(name="0.5B", hidden=1536, layers=30, heads=24)
"""On GPUs. Its heads can be divided by 2."""
MISMATCH = 0.002
"""Largest mean divergence of sampler and trainer, in nats a token, or `ROUNDING` times that before
the first update. Weights that were one update old had 0.02 and 0.008 with the tiny model on a CPU.
"""
ROUNDING = 5
LEARNING_RATE = 1e-3
SPARSE_RATE = 1e-6
"""A rate at which an update changes few entries of weights in bfloat16. AdamW's first step moves
each by the whole rate: at 1e-5 that changes a quarter of them, and sending all weights is shorter
(`docs/measurements/sparse_hand_over.json`, first rounds)."""


class KillingView(SilentProgressView):
    """Kills a sampler after the first iteration."""

    killed = 0
    """Samplers that were killed."""

    def iteration(self, progress: IterationProgress) -> None:
        super().iteration(progress)
        if self.killed:
            return
        for process in psutil.Process().children(recursive=True):
            if " ".join(process.cmdline()).startswith("ray::Sampler"):
                process.kill()
                self.killed += 1
                return


def check_run_on_ray(place: Place) -> dict[str, Any]:
    """Three iterations with vLLM: the samplers have the trainers' weights in each. Weights go over
    NCCL; on the CPU in buckets."""
    require("ray")
    require("vllm")
    if place.devices < 2:
        raise Skipped("there is one GPU")
    return checked_run(place, apart(place))


def check_sparse_on_ray(place: Place) -> dict[str, Any]:
    """The same with `sparseHandOver`: after all weights once, what changed goes over NCCL. The
    divergence shows values at wrong places; at this rate it does not show values that vLLM did not
    write, which the check `changes` does."""
    require("ray")
    require("vllm")
    if place.cpu:
        raise Skipped("vLLM packs the weights of its layers on CPUs")
    if place.devices < 2:
        raise Skipped("there is one GPU")
    found = checked_run(place, apart(place) | {"sparseHandOver": True}, rate=SPARSE_RATE)
    first, *later = found["hand_over_bytes"]
    assert max(later) < first, f"all weights were sent again: {found['hand_over_bytes']}"
    return found


def check_shared_gpus(place: Place) -> dict[str, Any]:
    """The same of trainers and samplers that use all GPUs in turns: vLLM sleeps while trainers
    compute, and takes weights in the memory of the GPU. On the CPU in the machine's shared memory,
    and without sleep. A sampler is killed, and replaced while the others are awake."""
    require("ray")
    require("vllm")
    view = KillingView()
    found = checked_run(place, in_turns(place), view)
    assert view.killed == 1, "no sampler was found"
    return found


def checked_run(
    place: Place,
    compute: dict[str, Any],
    view: SilentProgressView | None = None,
    *,
    rate: float = LEARNING_RATE,
) -> dict[str, Any]:
    """What a run found, of which each engine and the trainers must agree after each hand-over."""
    with tempfile.TemporaryDirectory(prefix="agentrl-gpu-") as scratch:
        model, root = Path(scratch, "model"), Path(scratch, "run")
        parameters = make(SIZES["0.36M"] if place.cpu else SIZE, model, context=1024)
        run, tracker = manifest(place, model, compute, rate), MemoryTracker()
        run_local(run, root, view or SilentProgressView(), tracker)
        store = DirectoryStore(root / "store")
        records = [
            IterationRecord.model_validate_json(store.get(keys.iteration(number)))
            for number in range(ITERATIONS)
        ]
    mismatches = [float(one.metrics["update/mismatch_kl"] or 0.0) for one in records]
    limit = max(MISMATCH, ROUNDING * abs(mismatches[0]))
    assert abs(mismatches[0]) < 10 * MISMATCH, f"engine and trainer differ: {mismatches}"
    assert max(map(abs, mismatches)) < limit, f"samplers and trainers differ: {mismatches}"
    norms = [one.metrics["update/grad_norm"] for one in records]
    assert all(norms), f"nothing was learnt: {norms}"
    return {
        "parameters": parameters,
        "over_nccl": run.spec.compute.hands_over_by_nccl("vllm", lora=False),
        "mismatch_kl": mismatches,
        "hand_over_seconds": recorded(tracker, "seconds/hand_over"),
        "hand_over_bytes": recorded(tracker, "train/hand_over_bytes"),
    }


def recorded(tracker: MemoryTracker, metric: str) -> list[float]:
    """A metric of the iterations that have it, in their order."""
    return [found[metric] for _, found in sorted(tracker.recorded.items()) if metric in found]


def apart(place: Place) -> dict[str, Any]:
    """`compute` with as many ranks as the engine leaves GPUs, at most four; from six GPUs on the
    engine has two."""
    if place.cpu:
        return {"trainers": {"count": 2}}
    split = 2 if place.devices >= 6 else 1
    return {
        "trainers": {"count": min(place.devices - split, 4), "gpus": 1},
        "samplers": {"gpus": split, "tensorParallel": split},
    }


def in_turns(place: Place) -> dict[str, Any]:
    """`compute` with a rank and an engine on each GPU, at most four."""
    if place.cpu:
        return {"shareGpus": True}
    count = min(place.devices, 4)
    return {
        "shareGpus": True,
        "trainers": {"count": count, "gpus": 1},
        "samplers": {"count": count, "gpus": 1, "memoryShare": 0.4},
    }


def manifest(place: Place, model: Path, compute: dict[str, Any], rate: float) -> AgentRLRun:
    """A run of the built-in corridor. Free replies of a random model never succeed: an entropy
    bonus changes the weights."""
    return AgentRLRun.model_validate(
        {
            "apiVersion": "agentrl.dev/v1alpha1",
            "kind": "AgentRLRun",
            "metadata": {"name": "gpu"},
            "spec": {
                "model": {
                    "source": f"file://{model}",
                    "context": 1024,
                    "template": "chat",
                    "dtype": "float32" if place.cpu else "bfloat16",
                },
                "environments": [{"name": "corridor", "builtin": "corridor"}],
                "horizon": {"phases": [{"maxTurns": 2, "iterations": ITERATIONS}]},
                "rollout": {"engine": "vllm", "tasks": 4, "groupSize": 4, "maxTokensPerTurn": 32},
                "algorithm": {"name": "grpo", "entropy": 0.05, "dropZeroVariance": False},
                "update": {"learningRate": rate},
                "evaluation": {"tasks": 4, "randomPolicy": False},
                "compute": {"ray": "embedded", **compute},
            },
        }
    )
