"""What only a machine with CUDA can show, in ten minutes at most.

    python benchmarks/gpu.py --out benchmarks/results/gpu.json
    python benchmarks/gpu.py --cpu --only device,torch_engine,fsdp_one

Every check runs in a process of its own and ends as ok, failed or skipped, with a reason; none can
stop the others. The model has the shape of Qwen3-0.6B and random weights; nothing is downloaded.

- device: what torch finds.
- torch_engine, vllm_engine: log-probabilities of replies are those of the trainer.
- fsdp_one, fsdp_many: gradients and norms of one rank and of one rank a GPU are those of the model
  without FSDP, in float32.
- ipc: weights that one process shares arrive in another on the same GPU.
- collective: weights that one rank broadcasts arrive on another GPU, and how fast.
- hand_over: seconds and bytes of a hand-over from the trainer to vLLM.
- sleep: vLLM gives its memory back while a trainer works, and plays the same after it wakes.
- mfu_16k, mfu_65k: model FLOPs utilisation of an update of as many tokens (aims: 35 % and 45 %).
- rollout: sampled tokens a second.

`--cpu` runs the same code with a tiny model, gloo and the torch engine, and with vLLM where its CPU
build is installed. Its times say nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from safetensors.torch import save_file
from torch import Tensor

from agentrl_components.engines.engine import Engine, Generation, Request, Sampling
from agentrl_components.engines.torch_engine.engine import TorchEngine
from agentrl_components.engines.vllm_engine.start import VllmOptions
from agentrl_components.model import architecture
from agentrl_components.model.decoder import Decoder
from agentrl_components.model.load import export_weights, open_decoder
from agentrl_components.sharded.rank import POLICY, Rank, RankSetup
from agentrl_components.sharded.rounds import deal
from agentrl_components.spec import RunSpec
from agentrl_components.update.logprobs import score
from agentrl_components.update.objectives import Imitation
from agentrl_components.update.packing import Example, pack

QWEN3_06B = {
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
}
TINY = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 512,
}
SECONDS = 600
"""Of all checks together."""
AIMS = {"mfu_16k": 0.35, "mfu_65k": 0.45}
TOLERANCE = 1e-5
"""Of gradients and norms, as a share of the largest element and of the norm."""
LOGPROB_TOLERANCE = {"float32": 2e-3, "bfloat16": 0.15}
"""Largest difference of a token's log-probability between sampler and trainer, in nats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a check ended."""

    name: str
    status: Literal["ok", "failed", "skipped"]
    reason: str
    figures: dict[str, Any]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the checks run."""

    cpu: bool
    folder: Path
    """The model folder."""

    @property
    def device(self) -> Literal["cpu", "cuda"]:
        """Name of the device in torch."""
        return "cpu" if self.cpu else "cuda"

    @property
    def devices(self) -> int:
        """How many ranks there can be."""
        return 2 if self.cpu else torch.cuda.device_count()

    def spec(self, dtype: str, *, recompute: bool = False) -> RunSpec:
        """The manifest of a check."""
        return RunSpec.model_validate(
            {
                "model": {"source": f"file://{self.folder}", "context": 4096, "dtype": dtype},
                "environments": [{"name": "corridor", "builtin": "corridor"}],
                "horizon": {"phases": [{"maxTurns": 1, "iterations": 1}]},
                "update": {"gradientCheckpointing": recompute},
            }
        )

    def decoder(self, dtype: torch.dtype) -> Decoder:
        """The model without FSDP."""
        found = open_decoder(self.folder, dtype, torch.device(self.device), "native")
        assert isinstance(found, Decoder)
        return found


class Skipped(Exception):
    """The check needs what this machine does not have."""


@click.command()
@click.option("--cpu", is_flag=True, help="The same code with a tiny model on the CPU.")
@click.option("--only", default="", help="Names of checks, with commas. Default: all.")
@click.option("--out", default="benchmarks/results/gpu.json", show_default=True)
@click.option("--check", "one", default="", hidden=True)
@click.option("--folder", default="", hidden=True)
def main(cpu: bool, only: str, out: str, one: str, folder: str) -> None:
    """Run the checks: print a line for each and write JSON. Exit code 1 if one failed."""
    if one:
        print(json.dumps(CHECKS[one](Place(cpu=cpu, folder=Path(folder)))), flush=True)
        return
    names = only.split(",") if only else list(CHECKS)
    unknown = sorted(set(names) - CHECKS.keys())
    if unknown:
        raise click.BadParameter(f"no check {unknown[0]}; there are {', '.join(CHECKS)}")
    ends = time.monotonic() + SECONDS
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="agentrl-gpu-") as scratch:
        place = Place(cpu=cpu, folder=Path(scratch))
        if cpu or torch.cuda.is_available():
            make_model(TINY if cpu else QWEN3_06B, place.folder)
        for name in names:
            outcome = in_process(name, place, ends - time.monotonic())
            outcomes.append(outcome)
            click.echo(
                f"{outcome.status:8}{name:14}{outcome.seconds:6.1f} s  {outcome.reason}"
                f"{json.dumps(outcome.figures) if outcome.figures else ''}"
            )
    written = {
        "cpu": cpu,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "checks": [asdict(outcome) for outcome in outcomes],
    }
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    Path(out).write_text(json.dumps(written, indent=1) + "\n")
    click.echo(f"written: {out}")
    if any(outcome.status == "failed" for outcome in outcomes):
        sys.exit(1)


def in_process(name: str, place: Place, left: float) -> Outcome:
    """Run a check in a process of its own, for at most `left` seconds and its own share."""
    began = time.monotonic()
    status: Literal["ok", "failed", "skipped"] = "failed"
    reason, figures = "", {}
    limit = min(left, SECONDS / 4)
    if not place.cpu and not torch.cuda.is_available():
        status, reason = "skipped", "torch finds no GPU"
    elif limit < 5:
        status, reason = "skipped", f"the {SECONDS} seconds of all checks are over"
    else:
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
            lines = [line for line in output.splitlines() if line.startswith("{")]
            last = [line for line in errors.splitlines() if line.strip()][-1:]
            if child.returncode == 0 and lines:
                status, figures = "ok", json.loads(lines[-1])
            elif last and last[0].startswith(("Skipped:", "__main__.Skipped:")):
                status, reason = "skipped", last[0].partition("Skipped: ")[2]
            else:
                reason = last[0] if last else f"ended with code {child.returncode}"
        except subprocess.TimeoutExpired:
            reason = f"took longer than {limit:.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # and what it started
            child.wait()
    return Outcome(
        name=name,
        status=status,
        reason=reason,
        figures=figures,
        seconds=time.monotonic() - began,
    )


def make_model(sizes: dict[str, int], folder: Path) -> None:
    """Write a Qwen3 with random weights, in bfloat16, without a tokenizer."""
    config = sizes | {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_act": "silu",
        "max_position_embeddings": 40960,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "bos_token_id": None,
        "eos_token_id": 0,
        "dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(config))
    decoder = Decoder(architecture.read(folder))
    decoder.initialise(torch.Generator().manual_seed(0))
    weights = {n: t.bfloat16() for n, t in export_weights(decoder).items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def examples(lengths: Sequence[int], vocabulary: int) -> list[Example]:
    """Episodes of random tokens, the second half of each sampled."""
    draw = np.random.default_rng(0)
    return [
        Example(
            ids=draw.integers(1, vocabulary, length + 1).astype(np.int32),
            sampled=np.arange(length // 2, length + 1),
            allowed=None,
            temperature=1.0,
            columns={"weight": np.ones(length + 1 - length // 2, dtype=np.float32)},
        )
        for length in lengths
    ]


def likelihood(some: Sequence[Example]) -> Imitation:
    """The mean log-probability of the sampled tokens, as a loss."""
    return Imitation(total_weight=float(sum(len(e.sampled) for e in some)), chunk=1024)


def require(module: str) -> None:
    """Raise `Skipped` if a package is not installed."""
    if importlib.util.find_spec(module) is None:
        raise Skipped(f"{module} is not installed")


def free_address() -> str:
    """A free port of this machine."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


def wait(place: Place) -> None:
    """Wait until the device has done what it was given."""
    if not place.cpu:
        torch.cuda.synchronize()


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
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        "vllm": importlib.util.find_spec("vllm") is not None,
        "flash_attn": importlib.util.find_spec("flash_attn") is not None,
    }


def requests(count: int, prompt: int, reply: int, vocabulary: int) -> list[Request]:
    """One request for each of `count` sessions."""
    draw = np.random.default_rng(1)
    sampling = Sampling(temperature=1.0, top_p=1.0, max_tokens=reply, stop=())
    return [
        Request(
            session=number,
            ids=draw.integers(1, vocabulary, prompt).tolist(),
            seed=number,
            sampling=sampling,
        )
        for number in range(count)
    ]


def played(engine: Engine, asked: Sequence[Request]) -> list[Generation]:
    """The replies to all requests at the same time."""

    async def all_of() -> list[Generation]:
        return await asyncio.gather(*(engine.generate(one) for one in asked))

    return LOOP.run_until_complete(all_of())


LOOP = asyncio.new_event_loop()


@torch.no_grad()
def difference(decoder: Decoder, asked: Sequence[Request], replies: Sequence[Generation]) -> float:
    """The largest difference of a log-probability between engine and trainer, in nats."""
    worst = 0.0
    for request, reply in zip(asked, replies, strict=True):
        start, ids = len(request.ids), [*request.ids, *reply.ids]
        one = Example(
            ids=np.array(ids, dtype=np.int32),
            sampled=np.arange(start, len(ids)),
            allowed=None,
            temperature=1.0,
            columns={},
        )
        found = score(decoder, pack([one], [0]), 1024)[0].cpu().numpy()
        worst = max(worst, float(np.abs(found - np.array(reply.logprobs)).max()))
    return worst


def compare_engine(place: Place, engine: Engine, decoder: Decoder, dtype: str) -> dict[str, Any]:
    """Raises `AssertionError` if log-probabilities differ by more than rounding."""
    asked = requests(4, 32, 16, decoder.shape.vocabulary)
    worst = difference(decoder, asked, played(engine, asked))
    assert worst <= LOGPROB_TOLERANCE[dtype], f"log-probabilities differ by {worst:.3g} nats"
    return {"dtype": dtype, "logprob_difference": worst}


def check_torch_engine(place: Place) -> dict[str, Any]:
    """The torch engine beside the trainer, in float32."""
    decoder = place.decoder(torch.float32)
    return compare_engine(place, TorchEngine(decoder), decoder, "float32")


def vllm_options(place: Place, dtype: Literal["float32", "bfloat16"]) -> VllmOptions:
    """vLLM beside a trainer."""
    return VllmOptions(device=place.device, dtype=dtype, context=2048, memory_share=0.4)


def check_vllm_engine(place: Place) -> dict[str, Any]:
    """vLLM beside the trainer."""
    require("vllm")
    from agentrl_components.engines.vllm_engine.engine import VllmEngine

    dtype: Literal["float32", "bfloat16"] = "float32" if place.cpu else "bfloat16"
    engine = VllmEngine(place.folder, vllm_options(place, dtype))
    decoder = place.decoder(getattr(torch, dtype))
    return compare_engine(place, engine, decoder, dtype)


def train(rank: int, ranks: int, place: Place, address: str, results: Any) -> None:
    """Two updates on a rank. Puts the gradients of the first and both norms into `results`."""
    if not place.cpu:
        torch.cuda.set_device(rank)
    setup = RankSetup(
        spec=place.spec("float32"), folder=place.folder, device=place.device, rank=rank, ranks=ranks
    )
    trainer = Rank(setup)
    trainer.join(address)
    some = skewed(trainer.policy.shape.vocabulary)
    norms, gradients = [], {}
    for update in range(2):
        trainer.differentiate(likelihood(some), deal(some, 512, ranks)[rank])
        if update == 0:
            for name, parameter in trainer.policy.named_parameters():
                gradients[name] = parameter.grad.full_tensor().cpu().clone()  # type: ignore[union-attr, operator]
        norms.append(trainer.step(POLICY, 1e-4))
    if rank == 0:
        results.put((save_gradients(place, gradients), norms))
    trainer.leave()


def save_gradients(place: Place, gradients: dict[str, Tensor]) -> str:
    """A file with the gradients, since a queue would hand over file descriptors."""
    path = place.folder / "gradients.pt"
    torch.save({n: g.contiguous() for n, g in gradients.items()}, path)
    return str(path)


def skewed(vocabulary: int) -> list[Example]:
    """Episodes of very different lengths."""
    return examples([16, 300, 24, 40, 120, 16, 32, 64], vocabulary)


def compare_ranks(place: Place, ranks: int) -> dict[str, Any]:
    """Raises `AssertionError` if gradients or norms are not those of the model without FSDP."""
    decoder = place.decoder(torch.float32)
    some = skewed(decoder.shape.vocabulary)
    for one in deal(some, 512, 1)[0].packs:
        likelihood(some)(decoder, one)[0].backward()  # type: ignore[no-untyped-call]
    plain = {n: p.grad.cpu() for n, p in decoder.named_parameters() if p.grad is not None}
    del decoder
    context = processes.get_context("spawn")
    results = context.Queue()
    address = free_address()
    children = [
        context.Process(target=train, args=(rank, ranks, place, address, results))
        for rank in range(ranks)
    ]
    for child in children:
        child.start()
    path, norms = awaited(results, children)
    for child in children:
        child.join()
    gradients = torch.load(path)
    worst = max(float((gradients[n] - g).abs().max() / g.abs().max()) for n, g in plain.items())
    norm = math.sqrt(sum(float(g.double().square().sum()) for g in plain.values()))
    found = {
        "ranks": ranks,
        "gradient_difference": worst,
        "norm_difference": abs(norms[0] - norm) / norm,
        "norms": norms,
    }
    assert worst <= TOLERANCE, f"gradients differ by {worst:.2g}"
    assert found["norm_difference"] <= TOLERANCE, f"norms differ by {found['norm_difference']:.2g}"
    return found


def awaited(results: Any, children: Sequence[Any]) -> Any:
    """What a child puts into the queue. Raises `RuntimeError` if one fails first."""
    import queue

    while True:
        try:
            return results.get(timeout=1)
        except queue.Empty:
            failed = [child.exitcode for child in children if child.exitcode]
            if failed:
                raise RuntimeError(f"a rank ended with code {failed[0]}") from None


def check_fsdp_one(place: Place) -> dict[str, Any]:
    """One rank."""
    return compare_ranks(place, 1)


def check_fsdp_many(place: Place) -> dict[str, Any]:
    """One rank for each device."""
    if place.devices < 2:
        raise Skipped("there is one GPU")
    return compare_ranks(place, place.devices)


def receive(given: Any, answer: Any) -> None:
    """Add up the weights that another process shares."""
    shared = given.get()
    answer.put({name: float(tensor.double().sum()) for name, tensor in shared.items()})


def check_ipc(place: Place) -> dict[str, Any]:
    """CUDA IPC on one GPU; shared memory on the CPU."""
    decoder = place.decoder(torch.bfloat16)
    weights = {n: p.detach() for n, p in decoder.named_parameters()}
    context = processes.get_context("spawn")
    given, answer = context.Queue(), context.Queue()
    child = context.Process(target=receive, args=(given, answer))
    child.start()
    began = time.perf_counter()
    given.put(weights)
    found = awaited(answer, [child])
    seconds = time.perf_counter() - began  # with the start of the process
    child.join()
    wrong = [n for n, w in weights.items() if float(w.double().sum()) != found[n]]
    assert not wrong, f"{wrong[0]} arrived changed"
    return {"bytes": sum(w.nbytes for w in weights.values()), "seconds_with_start": seconds}


def broadcast(rank: int, place: Place, address: str, results: Any) -> None:
    """Send the weights of rank 0 to rank 1."""
    if not place.cpu:
        torch.cuda.set_device(rank)
    dist.init_process_group(
        "gloo" if place.cpu else "nccl",
        init_method=f"tcp://{address}",
        rank=rank,
        world_size=2,
    )
    weights = [p.detach() for p in place.decoder(torch.bfloat16).parameters()]
    expected = [float(w.double().sum()) for w in weights]
    seconds = 0.0
    for _ in range(2):  # the first time connects
        if rank == 1:
            for weight in weights:
                weight.zero_()
        wait(place)
        dist.barrier()
        began = time.perf_counter()
        for weight in weights:
            dist.broadcast(weight, 0)
        wait(place)
        seconds = time.perf_counter() - began
    if rank == 1:
        arrived = [float(w.double().sum()) for w in weights]
        results.put((arrived == expected, seconds, sum(w.nbytes for w in weights)))
    dist.destroy_process_group()


def check_collective(place: Place) -> dict[str, Any]:
    """NCCL between two GPUs; gloo on the CPU."""
    if place.devices < 2:
        raise Skipped("there is one GPU")
    context = processes.get_context("spawn")
    results = context.Queue()
    address = free_address()
    children = [
        context.Process(target=broadcast, args=(rank, place, address, results)) for rank in (0, 1)
    ]
    for child in children:
        child.start()
    same, seconds, size = awaited(results, children)
    for child in children:
        child.join()
    assert same, "weights arrived changed"
    return {"bytes": size, "seconds": seconds, "gigabytes_per_second": size / seconds / 1e9}


def check_hand_over(place: Place) -> dict[str, Any]:
    """From a trainer in this process to vLLM beside it, through the CPU."""
    require("vllm")
    from agentrl_components.engines.vllm_engine.engine import VllmEngine

    engine = VllmEngine(place.folder, vllm_options(place, "bfloat16"))
    decoder = place.decoder(torch.bfloat16)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.mul_(1.01)
    seconds = []
    for version in (1, 2):
        began = time.perf_counter()
        weights = export_weights(decoder)
        LOOP.run_until_complete(engine.load(weights, version))
        wait(place)
        seconds.append(time.perf_counter() - began)
    found = compare_engine(place, engine, decoder, "bfloat16")
    size = sum(w.nbytes for w in weights.values())
    return found | {"bytes": size, "seconds": seconds}


def check_sleep(place: Place) -> dict[str, Any]:
    """vLLM sleeps while a trainer works on the same GPU."""
    require("vllm")
    if place.cpu:
        raise Skipped("vLLM's sleep mode needs CUDA")
    from vllm import LLM, SamplingParams

    model = LLM(
        model=str(place.folder),
        skip_tokenizer_init=True,
        dtype="bfloat16",
        max_model_len=2048,
        gpu_memory_utilization=0.4,
        enable_sleep_mode=True,
        enforce_eager=True,
    )
    prompts: Any = [{"prompt_token_ids": list(one.ids)} for one in requests(4, 32, 1, 1000)]
    greedy = SamplingParams(temperature=0, max_tokens=16, detokenize=False)

    def replies() -> list[list[int]]:
        return [list(one.outputs[0].token_ids) for one in model.generate(prompts, greedy)]

    before, awake = replies(), torch.cuda.mem_get_info()[0]
    began = time.perf_counter()
    model.sleep(level=1)
    slept, asleep = time.perf_counter() - began, torch.cuda.mem_get_info()[0]
    torch.empty((asleep - awake) // 2, dtype=torch.uint8, device="cuda").fill_(1)
    torch.cuda.empty_cache()
    began = time.perf_counter()
    model.wake_up()
    woke = time.perf_counter() - began
    assert replies() == before, "replies differ after waking up"
    return {
        "freed_gib": (asleep - awake) / 2**30,
        "seconds_to_sleep": slept,
        "seconds_to_wake": woke,
    }


def peak_flops() -> float | None:
    """Peak operations per second of the GPU in bfloat16, by its name. None: not known."""
    from agentrl_pipelines.sizing.devices import DEVICES

    name = torch.cuda.get_device_name(0).lower()
    for key, device in DEVICES.items():
        if key.partition("-")[0] in name:
            return device.flops
    return None


def measure_update(place: Place, tokens: int) -> dict[str, Any]:
    """Updates of one pack of `tokens` tokens, as episodes of 4,096 tokens, with recomputed
    activations. Recomputed operations do not count as the model's."""
    longest = 64 if place.cpu else 4096
    tokens = 256 if place.cpu else tokens
    spec = place.spec("bfloat16", recompute=True)
    rank = Rank(RankSetup(spec=spec, folder=place.folder, device=place.device, rank=0, ranks=1))
    rank.join(free_address())
    shape = rank.policy.shape
    some = examples([longest] * (tokens // longest), shape.vocabulary)
    asked, share = likelihood(some), deal(some, tokens, 1)[0]
    assert len(share.packs) == 1
    seconds = []
    for _ in range(4):
        wait(place)
        began = time.perf_counter()
        rank.differentiate(asked, share)
        rank.step(POLICY, 1e-6)
        wait(place)
        seconds.append(time.perf_counter() - began)
    rank.leave()
    fastest = sorted(seconds[1:])[1]  # the median of three
    parameters = sum(p.numel() for p in rank.policy.parameters())
    heads = shape.hidden * shape.vocabulary
    sampled = sum(len(e.sampled) for e in some)
    # 6 operations a weight and token (arXiv 2001.08361), of the head for sampled tokens only;
    # causal attention reads half of the keys on average.
    attention = 6 * shape.layers * shape.heads * shape.head_width * longest * tokens
    operations = 6 * (parameters - heads) * tokens + 6 * heads * sampled + attention
    found: dict[str, Any] = {
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / fastest,
    }
    if not place.cpu:
        found["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
        peak = peak_flops()
        found["mfu"] = None if peak is None else operations / fastest / peak
    return found


def check_mfu_16k(place: Place) -> dict[str, Any]:
    """An update of 16,384 tokens."""
    return measure_update(place, 16384) | {"aim": AIMS["mfu_16k"]}


def check_mfu_65k(place: Place) -> dict[str, Any]:
    """An update of 65,536 tokens."""
    return measure_update(place, 65536) | {"aim": AIMS["mfu_65k"]}


def check_rollout(place: Place) -> dict[str, Any]:
    """Replies of 128 tokens to prompts of 512, 256 at the same time."""
    count, prompt, reply = (4, 16, 8) if place.cpu else (256, 512, 128)
    if place.cpu:
        engine: Engine = TorchEngine(place.decoder(torch.float32))
    else:
        require("vllm")
        from agentrl_components.engines.vllm_engine.engine import VllmEngine

        engine = VllmEngine(place.folder, vllm_options(place, "bfloat16"))
    vocabulary = architecture.read(place.folder).vocabulary
    asked = requests(count, prompt, reply, vocabulary)
    played(engine, asked[:2])  # starts kernels
    for one in asked[:2]:
        LOOP.run_until_complete(engine.release(one.session))
    began = time.perf_counter()
    replies = played(engine, asked)
    seconds = time.perf_counter() - began
    sampled = sum(len(one.ids) for one in replies)
    return {"sampled": sampled, "seconds": seconds, "tokens_per_second": sampled / seconds}


CHECKS: dict[str, Callable[[Place], dict[str, Any]]] = {
    "device": check_device,
    "torch_engine": check_torch_engine,
    "fsdp_one": check_fsdp_one,
    "fsdp_many": check_fsdp_many,
    "ipc": check_ipc,
    "collective": check_collective,
    "mfu_16k": check_mfu_16k,
    "mfu_65k": check_mfu_65k,
    "vllm_engine": check_vllm_engine,
    "hand_over": check_hand_over,
    "rollout": check_rollout,
    "sleep": check_sleep,
}


if __name__ == "__main__":
    main()
