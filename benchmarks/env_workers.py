"""An environment that computes, in the sampler's process and in processes of its own.

    python benchmarks/env_workers.py --step-ms 5 --workers 1 --out results/env_workers.json

One worker of AgentRL with the torch engine plays the same episodes both ways. A step of the
environment computes for `--step-ms` in Python and holds the interpreter lock meanwhile. In the
sampler's process the engine waits for it; with `environments[].workers` both run side by side. The
two alternate, and the ratios are those of the medians: of sampled tokens per second, and per second
of processor time of the sampler's process. The second does not need an idle core, and is what the
first can come to where there is one. Fails if the episodes differ.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

import click
from report.machine import machine
from workload import models, workers
from workload.room import NAME, Load, arrival, first_observation, jobs, task

from agentrl_components.engines.prefix_check import CheckedEngine
from agentrl_components.engines.torch_engine.engine import TorchEngine
from agentrl_components.rollout.token_rollout import TokenRollout
from agentrl_components.trajectory.record import Trajectory
from agentrl_components.workers.worker import Worker
from agentrl_envs.env import Observation, Split, Step, Task
from agentrl_envs.server.execution.process_world import ProcessWorld
from agentrl_envs.world import LocalWorld, World

HERE, BESIDE = "in the sampler's process", "in processes of its own"
PROCESSOR = "tokens per processor second of the sampler's process"


class ComputingEnvironment:
    """Accepts any action, and computes for some time in each step."""

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._steps = 0

    def reset(self, task: Task) -> Observation:
        self._steps = 0
        return first_observation(task)

    def step(self, action: str) -> Step:
        del action
        until = time.thread_time() + self._step_s
        while time.thread_time() < until:
            pass
        self._steps += 1
        return arrival(self._steps)

    def close(self) -> None:
        """Nothing is held."""


class ComputingTasks:
    """Tasks whose environments compute for `step_s` seconds in each step."""

    name = NAME

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s

    def instructions(self) -> str:
        return ""

    def vocabulary(self) -> tuple[str, ...] | None:
        return None

    def size(self, split: Split) -> int | None:
        del split
        return None

    def task(self, split: Split, index: int) -> Task:
        del split
        return task(index)

    def environment(self) -> ComputingEnvironment:
        return ComputingEnvironment(self._step_s)


def play(worker: Worker, world: World, load: Load, iteration: int) -> list[Trajectory]:
    """One rollout phase with AgentRL's rollout and torch engine."""

    async def phase() -> list[Trajectory]:
        rollout = TokenRollout({NAME: world}, worker.dialogue, retries=0, concurrency=load.rollouts)
        engine = CheckedEngine(TorchEngine(worker.decoder))
        try:
            return await rollout.play(jobs(load, iteration), load.rules(), engine)
        finally:
            await rollout.close()

    return asyncio.run(phase())


def measure(
    size: str, load: Load, factory: partial[ComputingTasks], processes: int, rounds: int
) -> dict[str, dict[str, list[float]]]:
    """Sampled tokens per second of each round, by the clock and by where the environment runs."""
    worlds: dict[str, LocalWorld] = {
        HERE: LocalWorld(factory()),
        BESIDE: ProcessWorld(factory, workers=processes),
    }
    clocks = {"tokens per second": time.perf_counter, PROCESSOR: time.process_time}
    rates = {clock: {place: list[float]() for place in worlds} for clock in clocks}
    with tempfile.TemporaryDirectory(prefix="agentrl-bench-") as scratch:
        models.make(models.SIZES[size], Path(scratch))
        with workers.opened(Path(scratch), 1) as opened:
            for number in range(-1, rounds):  # round -1 warms up
                played: list[list[list[int]]] = []
                for place, world in worlds.items():
                    began = {name: clock() for name, clock in clocks.items()}
                    (episodes,) = opened.pool.map(play, [(world, load, number)])
                    seconds = {name: clock() - began[name] for name, clock in clocks.items()}
                    played.append([one.ids.tolist() for one in episodes])
                    tokens = sum(one.num_sampled for one in episodes)
                    for name in clocks if number >= 0 else ():
                        rates[name][place].append(tokens / seconds[name])
                if played[0] != played[1]:
                    raise click.ClickException("the episodes differ")
    asyncio.run(worlds[BESIDE].close())
    return rates


@click.command()
@click.option("--size", type=click.Choice(list(models.SIZES)), default="0.36M", show_default=True)
@click.option("--step-ms", default=5.0, show_default=True, help="Processor time of a step.")
@click.option("--workers", "processes", default=1, show_default=True)
@click.option("--rollouts", default=32, show_default=True)
@click.option("--turns", default=6, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--out", "path", default="benchmarks/results/env_workers.json", show_default=True)
def main(
    size: str, step_ms: float, processes: int, rollouts: int, turns: int, rounds: int, path: str
) -> None:
    """Compare the two places of an environment that computes, and write JSON."""
    load = Load(rollouts=rollouts, group=8, turns=turns, turn_tokens=8, latency_ms=0.0)
    before = machine()
    rates = measure(size, load, partial(ComputingTasks, step_ms / 1e3), processes, rounds)
    result = {
        "command": f"python benchmarks/env_workers.py --size {size} --step-ms {step_ms:g} "
        f"--workers {processes} --rollouts {rollouts} --turns {turns} --rounds {rounds}",
        "machine": before | {"load at the end": machine()["load"]},
        **rates,
        "ratios of the medians": {
            name: median(places[BESIDE]) / median(places[HERE]) for name, places in rates.items()
        },
    }
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(result, indent=2) + "\n")
    click.echo(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
