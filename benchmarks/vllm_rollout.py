"""Whole rollouts with vLLM beside vLLM alone, which is fed the same tokens.

    .venv/bin/python benchmarks/vllm_rollout.py

Both use one engine in this process. AgentRL's rollout is the product's own code: dialogue,
tokenizer, prefix checker, masks, log-probabilities and records. vLLM alone is a loop around
`add_request` and `step` without any of that: it gets the token ids, parameters and seeds of the
requests of that rollout, and waits as long as the environment between the turns of an episode. The
two alternate, and begin with an empty prefix cache. `ratio` is AgentRL's tokens per second over
those of vLLM alone, the median over the rounds.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click
from report.machine import machine
from workload import room
from workload.models import SIZES, make
from workload.room import Load

from agentrl_components.dialogue.open import open_dialogue
from agentrl_components.engines.engine import Generation, Request
from agentrl_components.engines.prefix_check import CheckedEngine
from agentrl_components.engines.vllm_engine.engine import VllmEngine
from agentrl_components.engines.vllm_engine.sampling import params_of
from agentrl_components.engines.vllm_engine.start import VllmOptions
from agentrl_components.rollout.token_rollout import TokenRollout
from agentrl_components.spec.fields.rollout import Interrupt

if TYPE_CHECKING:
    import torch

ROLLOUTS, GROUP, TURNS, TOKENS = 64, 8, 8, 32


@dataclass(frozen=True, slots=True)
class Phase:
    """A rollout phase."""

    seconds: float
    tokens: int
    """Sampled tokens."""

    @property
    def rate(self) -> float:
        """Sampled tokens per second."""
        return self.tokens / self.seconds


class RecordedEngine:
    """An `Engine` that keeps the requests of each session."""

    def __init__(self, engine: VllmEngine) -> None:
        self._engine = engine
        self.requests: dict[int, list[Request]] = defaultdict(list)

    async def generate(self, request: Request) -> Generation:
        self.requests[request.session].append(request)
        return await self._engine.generate(request)

    async def release(self, session: int) -> None:
        await self._engine.release(session)

    async def load(
        self, weights: Mapping[str, torch.Tensor], version: int, interrupt: Interrupt = "finish"
    ) -> None:
        await self._engine.load(weights, version, interrupt)

    async def close(self) -> None:
        """The engine is closed by who has opened it."""


@click.command()
@click.option("--size", type=click.Choice(list(SIZES)), default="2.45M", show_default=True)
@click.option("--latencies", default="0,20,100", show_default=True, help="In milliseconds.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--out", default="benchmarks/results/vllm_rollout.json", show_default=True)
def main(size: str, latencies: str, rounds: int, out: str) -> None:
    """Measure, print a line for each latency and write JSON."""
    with tempfile.TemporaryDirectory(prefix="agentrl-bench-") as scratch:
        make(SIZES[size], Path(scratch))
        found = asyncio.run(measure(Path(scratch), list(map(float, latencies.split(","))), rounds))
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    report = {"machine": machine(), "model": size, "results": found}
    Path(out).write_text(json.dumps(report, indent=1) + "\n")


async def measure(folder: Path, latencies: list[float], rounds: int) -> list[dict[str, Any]]:
    """Phases of both ways at each latency; the first of each is not counted."""
    engine = VllmEngine(folder, VllmOptions(context=4096, replies=ROLLOUTS))
    found = []
    for latency in latencies:
        load = Load(
            rollouts=ROLLOUTS, group=GROUP, turns=TURNS, turn_tokens=TOKENS, latency_ms=latency
        )
        phases: dict[str, list[Phase]] = {"agentrl": [], "vllm": []}
        for number in range(rounds + 1):
            await engine._loop.call(lambda core: core.reset_prefix_cache())
            recorded = RecordedEngine(engine)
            phases["agentrl"].append(await play(folder, recorded, load, number))
            await engine._loop.call(lambda core: core.reset_prefix_cache())
            asked = list(recorded.requests.values())
            again = partial(alone, asked=asked, pause=latency / 1e3)
            phases["vllm"].append(await engine._loop.call(again))
        counted = {side: some[1:] for side, some in phases.items()}
        ratios = [a.rate / b.rate for a, b in zip(*counted.values(), strict=True)]
        rates = ", ".join(f"{median(p.rate for p in counted[side]):,.0f}" for side in counted)
        click.echo(f"{latency:g} ms: AgentRL, vLLM alone {rates} tok/s, ratio {median(ratios):.2f}")
        found.append(
            {"latency_ms": latency, "ratio": median(ratios)}
            | {side: [asdict(phase) for phase in some] for side, some in counted.items()}
        )
    await engine.close()
    return found


async def play(folder: Path, engine: RecordedEngine, load: Load, number: int) -> Phase:
    """A phase of the product's rollout."""
    dialogue = open_dialogue(folder, "chat", tiny=False)
    worlds = {room.NAME: room.RoomWorld(load.latency_ms / 1e3)}
    rollout = TokenRollout(worlds, dialogue, 0, load.rollouts)
    jobs = room.jobs(load, number)
    began = time.perf_counter()
    played = await rollout.play(jobs, load.rules(), CheckedEngine(engine))
    seconds = time.perf_counter() - began
    return Phase(seconds, sum(episode.num_sampled for episode in played))


def alone(core: Any, asked: list[list[Request]], pause: float) -> Phase:
    """A phase of vLLM alone: the requests of each session one after another, with a pause of
    `pause` seconds between them, as many sessions at once as there are."""
    due = [(0.0, session, 0) for session in range(len(asked))]
    """When a session's next request is due, the session, and the request's place."""
    turns = [0] * len(asked)
    tokens = 0
    began = time.perf_counter()
    while due or core.has_unfinished_requests():
        now = time.perf_counter() - began
        while due and due[0][0] <= now:
            _, session, turn = heapq.heappop(due)
            request = asked[session][turn]
            params = params_of(request.sampling, request.seed, request.sampling.max_tokens)
            core.add_request(str(session), {"prompt_token_ids": list(request.ids)}, params)
        if not core.has_unfinished_requests():
            time.sleep(max(0.0, due[0][0] - now))
            continue
        for output in core.step():
            if not output.finished:
                continue
            session = int(output.request_id)
            tokens += len(output.outputs[0].token_ids)
            turns[session] += 1
            if turns[session] < len(asked[session]):
                heapq.heappush(due, (time.perf_counter() - began + pause, session, turns[session]))
    return Phase(time.perf_counter() - began, tokens)


if __name__ == "__main__":
    main()
