"""Held-out success of runs whose episodes stream on Ray, beside the run in turns.

    python benchmarks/staleness.py --out benchmarks/results/staleness.json

Arms are `rollout.maxStaleness` 0 (in turns), 1 and 2, with one trainer and one sampler on an
embedded Ray, with the configuration of a manifest (examples/babyai.yaml) and a shorter horizon.
Each seed has one warm start, from which its three arms go on, with the same tasks, learning rate
and mini-batches. All are evaluated on held-out tasks, which are tried once each.

What varies is the seed: the tasks, the warm start and the sampled tokens. So the interval of the
run in turns is that of a mean over seeds (Student's t), which is wide for three of them; the
interval of a share of as many tasks (Wilson) is narrower, but takes the trained policies as given.
An arm's mean is compared with both, and the difference of an arm and the run in turns is paired by
seed, with its own interval. Arms with `maxStaleness` above 0 depend on how fast each process is, so
each is run `--repeats` times, and a seed counts with the mean of them.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import click
from report.machine import machine
from report.seeds import mean_interval, paired_interval

from agentrl_components.evaluation.heldout import RANDOM
from agentrl_components.evaluation.intervals import wilson
from agentrl_components.run.context import RunContext
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.spec import AgentRLRun
from agentrl_components.spec.parsing.load import load
from agentrl_components.stages.before_training import prepare
from agentrl_components.stages.evaluate import evaluate
from agentrl_components.stages.provision import provision
from agentrl_components.stages.train import train
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.tracking.tracker import MemoryTracker

ARMS = (0, 1, 2)
"""Values of `rollout.maxStaleness`."""
HORIZONS = ((3, 0.15), (5, 0.45), (8, 1.0))
"""Turn limits of the phases, and the share of the iterations at which each ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an arm reached with a seed: held-out success, and ages of tokens in updates."""

    seed: int
    max_staleness: int
    repeat: int
    """Number of the run of this arm with this seed, from 0."""
    random: float
    before: float
    after: float
    n: int
    """Held-out tasks."""
    during: dict[int, float]
    """Held-out success by iteration."""
    staleness: float
    staleness_most: float


def manifest(path: str, seed: int, staleness: int, iterations: int, tasks: int) -> AgentRLRun:
    """The manifest of an arm."""
    ends = [0, *(round(share * iterations) for _, share in HORIZONS)]
    phases = [
        {"maxTurns": turns, "iterations": end - begin}
        for (turns, _), begin, end in zip(HORIZONS, ends[:-1], ends[1:], strict=True)
    ]
    compute = {"ray": "embedded", "workers": 0, "trainers": {"count": 1}, "samplers": {"count": 1}}
    return load(
        Path(path),
        [
            f"seed={seed}",
            f"horizon.phases={json.dumps(phases)}",
            f"rollout.maxStaleness={staleness}",
            "algorithm.importanceSampling.mode=truncate",
            "update.checkpointEvery=100000",
            "horizon.alarms=[]",
            f"evaluation.tasks={tasks}",
            f"evaluation.every={max(1, iterations // 4)}",
            f"compute={json.dumps(compute)}",
        ],
    )


def open_run(run: AgentRLRun, store: DirectoryStore, tracker: MemoryTracker) -> RunContext:
    """A run without a progress view."""
    return RunContext(run, store, tracker, SilentProgressView(), lambda: None)


def warm_start(run: AgentRLRun, store: DirectoryStore) -> None:
    """What precedes training; kept in the store."""
    with open_run(run, store, MemoryTracker()) as context:
        context.workers.loop.run(provision(run, context.workers.worlds, context.journal))
        prepare(context)


def train_arm(run: AgentRLRun, store: DirectoryStore, repeat: int = 0) -> Outcome:
    """Train from the warm start in the store, and evaluate."""
    tracker = MemoryTracker()
    with open_run(run, store, tracker) as context:
        chance, before = evaluate(context, RANDOM), evaluate(context, keys.BEFORE)
        for phase in range(len(run.spec.horizon.phases)):
            train(context, phase)
        after = evaluate(context, keys.AFTER)
        history = context.history
    trained = [tracker.recorded[number] for number in range(1, len(history) + 1)]
    ages = [one.get("train/staleness", 0.0) for one in trained]
    return Outcome(
        seed=run.spec.seed,
        max_staleness=run.spec.rollout.max_staleness,
        repeat=repeat,
        random=chance.success,
        before=before.success,
        after=after.success,
        n=after.n,
        during={one.iteration + 1: one.heldout for one in history if one.heldout is not None},
        staleness=fmean(ages),
        staleness_most=max(one.get("train/staleness_max", 0.0) for one in trained),
    )


def means_by_seed(outcomes: list[Outcome]) -> list[float]:
    """Held-out success of an arm, one mean for each seed."""
    seeds = sorted({one.seed for one in outcomes})
    return [fmean(one.after for one in outcomes if one.seed == seed) for seed in seeds]


def compared(outcomes: list[Outcome]) -> dict[str, Any]:
    """Each arm's mean beside the intervals of the run in turns, and the paired differences."""
    reached = {arm: means_by_seed([o for o in outcomes if o.max_staleness == arm]) for arm in ARMS}
    turns = reached[0]
    trials = sum(one.n for one in outcomes if one.max_staleness == 0)
    tasks = wilson(round(fmean(turns) * trials), trials)
    over_seeds = mean_interval(turns)
    arms = {}
    for arm in ARMS[1:]:
        mean = fmean(reached[arm])
        arms[arm] = {
            "mean": mean,
            "within the interval over seeds": over_seeds.low <= mean <= over_seeds.high,
            "within the interval over tasks": tasks.low <= mean <= tasks.high,
            "minus in turns, paired by seed": asdict(paired_interval(reached[arm], turns)),
        }
    return {
        "in turns": {
            "over seeds, Student's t": asdict(over_seeds),
            "over tasks, Wilson": {"low": tasks.low, "high": tasks.high, "n": trials},
        },
        "maxStaleness": arms,
    }


def runs_of_a_seed(repeats: int) -> list[tuple[int, int]]:
    """`maxStaleness` and number of each run. The run in turns gives the same each time."""
    repeated = [(arm, repeat) for arm in ARMS[1:] for repeat in range(repeats)]
    return [(0, 0), *repeated]


@click.command()
@click.option("--manifest", "path", default="examples/babyai.yaml", show_default=True)
@click.option(
    "--seeds",
    type=click.IntRange(2, 8),
    default=3,
    show_default=True,
    help="They are 0, 1, ...",
)
@click.option(
    "--repeats",
    type=click.IntRange(1, 9),
    default=1,
    show_default=True,
    help="Runs of each arm with maxStaleness above 0 and each seed.",
)
@click.option("--iterations", default=60, show_default=True)
@click.option("--tasks", default=400, show_default=True, help="Held-out tasks.")
@click.option("--out", default="benchmarks/results/staleness.json", show_default=True)
def main(path: str, seeds: int, repeats: int, iterations: int, tasks: int, out: str) -> None:
    """Train all arms of each seed, print held-out success and write JSON."""
    before = machine()
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="agentrl-staleness-") as root:
        for seed in range(seeds):
            warm = Path(root) / f"warm-{seed}"
            warm_start(manifest(path, seed, 0, iterations, tasks), DirectoryStore(warm))
            for staleness, repeat in runs_of_a_seed(repeats):
                place = Path(root) / f"{seed}-{staleness}-{repeat}"
                shutil.copytree(warm, place)
                (place / keys.RUN).unlink()  # the manifest, in which the arms differ
                run = manifest(path, seed, staleness, iterations, tasks)
                outcomes.append(train_arm(run, DirectoryStore(place), repeat))
                click.echo(str(outcomes[-1]))
    report = {
        "command": f"python benchmarks/staleness.py --seeds {seeds} --repeats {repeats} "
        f"--iterations {iterations} --tasks {tasks} --manifest {path}",
        "machine": before,
        **compared(outcomes),
        "each": [asdict(one) for one in outcomes],
    }
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    Path(out).write_text(json.dumps(report, indent=1) + "\n")
    click.echo(json.dumps({key: report[key] for key in ("in turns", "maxStaleness")}, indent=1))


if __name__ == "__main__":
    main()
