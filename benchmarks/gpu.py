"""What only a machine with CUDA can show, in ten minutes at most, or in `--seconds`.

    python benchmarks/gpu.py --out benchmarks/results/gpu.json
    python benchmarks/gpu.py --cpu --only device,torch_engine,fsdp_one

Every check runs in a process of its own and ends as ok, failed or skipped, with a reason; none can
stop the others. One for which no time is left is unfinished, and the exit code is 1: on an H100
without caches all checks take about 15 minutes. The last line has the command for the rest. The
model has the shape of Qwen3-0.6B and random weights; nothing is downloaded.

- device: what torch finds.
- torch_engine, vllm_engine: log-probabilities of replies are those of the trainer.
- fsdp_one, fsdp_many: gradients and norms of one rank and of one rank a GPU, with FSDP2, are those
  of the model without it, in float32.
- collective: weights that one rank broadcasts arrive on another GPU, and how fast.
- run_on_ray: a short run whose trainers and samplers have GPUs of their own: FSDP2, hand-over by
  NCCL, and from six GPUs on an engine over two of them.
- sparse_on_ray: the same with compute.sparseHandOver.
- shared_gpus: the same of trainers and samplers that use GPUs in turns (compute.shareGpus): vLLM
  sleeps and wakes, and gets weights by CUDA IPC; a sampler is killed.
- packed_attention: attention over packed episodes without padding is that with padding, and its
  speed.
- kernels: our Triton kernels give what torch.compile gives, and their speed.
- ipc: weights that one process shares arrive in another on the same GPU.
- hand_over: seconds and bytes of a hand-over from the trainer to vLLM.
- changes: seconds and bytes of changes of 2 % of vLLM's weights (compute.sparseHandOver).
- sleep: vLLM gives its memory back while a trainer works, and wakes with the trainer's weights.
- interrupts: replies that go on over new weights, or start again, have the log-probabilities of
  the weights of each token.
- mfu_16k, mfu_65k, mfu_16k_compiled, mfu_65k_compiled: model FLOPs utilisation of an update of as
  many tokens in episodes of 4,096 (aims: 35 % and 45 %), without and with update.compile;
  mfu_65k_episode: of one episode of 65,536.
- only_rank: seconds and memory of an update without FSDP2 (one rank with copies of its weights) and
  with it.
- recomputation: seconds and memory of an update, by what its backward pass computes again.
- rollout: sampled tokens a second.
- vllm_engine_v1, interrupts_v1, rollout_v1, sleep_v1: the same with vLLM's model runner V1.

`--cpu` runs the same code with a tiny model, gloo and the torch engine, and with vLLM where its CPU
build is installed. Its times say nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import psutil
import torch
from gpu_checks import actors, engines, interrupts, ranks, transfer
from gpu_checks.outcome import Outcome, outcome_of
from gpu_checks.place import QWEN3_06B, TINY, Place, Skipped, make_model
from gpu_checks.updates import attention, kernels, only_rank, recomputation, throughput

SECONDS = 600
"""Of all checks together, by default."""
LONGEST = 300
"""Seconds of one check at most: vLLM first compiles what it keeps for later starts."""
SHORTEST = 5
"""Seconds with which a check is still begun."""


def check_device(place: Place) -> dict[str, Any]:
    """What torch finds."""
    if place.cpu:
        return {"device": "cpu", "threads": torch.get_num_threads()}
    found = torch.cuda.get_device_properties(0)
    return {
        "device": found.name,
        "count": torch.cuda.device_count(),
        "gib": round(found.total_memory / 2**30, 1),
        "bfloat16": torch.cuda.is_bf16_supported(),
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),  # type: ignore[no-untyped-call]
        "vllm": find_spec("vllm") is not None,
        "flash_attn": find_spec("flash_attn") is not None,
    }


CHECKS: dict[str, Callable[[Place], dict[str, Any]]] = {
    "device": check_device,
    "torch_engine": engines.check_torch_engine,
    "fsdp_one": ranks.check_fsdp_one,
    # Those of several GPUs first: on one they are skipped, and their time is left to the others.
    "fsdp_many": ranks.check_fsdp_many,
    "collective": transfer.check_collective,
    "run_on_ray": actors.check_run_on_ray,
    "sparse_on_ray": actors.check_sparse_on_ray,
    "packed_attention": attention.check_packed_attention,
    "kernels": kernels.check_kernels,
    "ipc": transfer.check_ipc,
    "mfu_16k": throughput.check_mfu_16k,
    "mfu_65k": throughput.check_mfu_65k,
    "mfu_16k_compiled": throughput.check_mfu_16k_compiled,
    "mfu_65k_compiled": throughput.check_mfu_65k_compiled,
    "mfu_65k_episode": throughput.check_mfu_65k_episode,
    "only_rank": only_rank.check_only_rank,
    "recomputation": recomputation.check_recomputation,
    "vllm_engine": engines.check_vllm_engine,
    "hand_over": transfer.check_hand_over,
    "changes": transfer.check_changes,
    "rollout": engines.check_rollout,
    "sleep": engines.check_sleep,
    "interrupts": interrupts.check_interrupts,
    "shared_gpus": actors.check_shared_gpus,
    "vllm_engine_v1": engines.check_vllm_engine_v1,
    "interrupts_v1": interrupts.check_interrupts_v1,
    "rollout_v1": engines.check_rollout_v1,
    "sleep_v1": engines.check_sleep_v1,
}


@click.command()
@click.option("--cpu", is_flag=True, help="The same code with a tiny model on the CPU.")
@click.option("--only", default="", help="Names of checks, with commas. Default: all.")
@click.option("--without", default="", help="Names of checks to leave out, with commas.")
@click.option("--seconds", default=SECONDS, show_default=True, help="Of all checks together.")
@click.option("--out", default="benchmarks/results/gpu.json", show_default=True)
@click.option("--check", "one", default="", hidden=True, type=click.Choice(["", *CHECKS]))
@click.option("--folder", default="", hidden=True)
def main(cpu: bool, only: str, without: str, seconds: int, out: str, one: str, folder: str) -> None:
    """Run the checks: print a line for each and write JSON. Exit code 1 if one failed or is
    unfinished."""
    if one:
        print(json.dumps(found(one, Place(cpu=cpu, folder=Path(folder)))), flush=True)
        return
    left_out = without.split(",") if without else []
    names = only.split(",") if only else list(CHECKS)
    unknown = sorted({*names, *left_out} - CHECKS.keys())
    if unknown:
        raise click.BadParameter(f"no check {unknown[0]}; there are {', '.join(CHECKS)}")
    names = [name for name in names if name not in left_out]
    ends = time.monotonic() + seconds
    signal.signal(signal.SIGTERM, end)
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="agentrl-gpu-") as scratch:
        place = Place(cpu=cpu, folder=Path(scratch))
        if cpu or torch.cuda.is_available():
            make_model(TINY if cpu else QWEN3_06B, place.folder)
        for name in names:
            outcome = in_process(name, place, ends - time.monotonic())
            outcomes.append(outcome)
            click.echo(
                f"{outcome.status:11}{name:18}{outcome.seconds:6.1f} s  {outcome.reason}"
                f"{json.dumps(outcome.figures) if outcome.figures else ''}"
            )
            write(Path(out), cpu, outcomes)  # kept if the run is ended early
    click.echo(f"written: {out}")
    if rest := [outcome.name for outcome in outcomes if outcome.status == "unfinished"]:
        click.echo(f"for the rest: benchmarks/gpu.py --only {','.join(rest)}")
    if any(outcome.status in ("failed", "unfinished") for outcome in outcomes):
        sys.exit(1)


def end(number: int, _: object) -> None:
    """End with the check under way, which would otherwise disturb whatever runs next.

    `Popen` may not have returned yet, so its process is looked up here.
    """
    processes = psutil.Process().children(recursive=True)
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=10)
    sys.exit(128 + number)


def write(path: Path, cpu: bool, outcomes: list[Outcome]) -> None:
    """Write the outcomes as JSON."""
    written = {
        "cpu": cpu,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "checks": [asdict(outcome) for outcome in outcomes],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(written, indent=1) + "\n")


def found(name: str, place: Place) -> dict[str, Any]:
    """What a check finds, as `{"figures": {...}}`, or `{"skipped": REASON}`."""
    try:
        return {"figures": CHECKS[name](place)}
    except Skipped as skipped:
        return {"skipped": str(skipped)}


def in_process(name: str, place: Place, left: float) -> Outcome:
    """Run a check in a process of its own, for at most `left` seconds and `LONGEST`."""
    if not place.cpu and not torch.cuda.is_available():
        return Outcome(name=name, status="skipped", reason="torch finds no GPU")
    limit = min(left, LONGEST)
    if limit < SHORTEST:
        return Outcome(name=name, status="unfinished", reason="the time of all checks is over")
    began = time.monotonic()
    command = [sys.executable, __file__, "--check", name, "--folder", str(place.folder)]
    child = subprocess.Popen(
        [*command, *(["--cpu"] if place.cpu else [])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = child.communicate(timeout=limit)
        outcome = outcome_of(name, child.returncode, output, errors)
    except subprocess.TimeoutExpired:
        if limit < left:
            reason = f"took longer than {limit:.0f} s"
            outcome = Outcome(name=name, status="failed", reason=reason)
        else:
            reason = "the time of all checks was over before it had ended"
            outcome = Outcome(name=name, status="unfinished", reason=reason)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # and what it started
        child.wait()
    return replace(outcome, seconds=time.monotonic() - began)


if __name__ == "__main__":
    main()
