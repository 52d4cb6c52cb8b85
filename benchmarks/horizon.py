"""Comparison of a growing horizon with fixed ones, at equal environment turns.

    python benchmarks/horizon.py --root runs/horizon --out benchmarks/results/horizon.json
    python benchmarks/horizon.py --quick

Tests the claim of ScalingInter-RL (arXiv 2509.08755, section 3.3) with the configuration of a
manifest (examples/babyai.yaml). Each seed has one warm start. Each arm continues from its
checkpoint, including the optimizer state, and trains until its episodes have taken `--turns`
environment turns. The staged arm increases its horizon after 25 % and 55 % of these turns. All
arms are then evaluated on the same held-out tasks with the same turn limit: the last horizon of the
staged arm.

The arms differ in nothing else: seed, tasks, learning rate and mini-batches are those of the
manifest. Finished arms are stored under `--root`, and the same command continues after an
interruption.

Reported are held-out success by seed, its mean with the interval over seeds (Student's t), the mean
difference between the staged arm and each other arm, paired by seed, and the processor seconds of
training (all processes, without evaluation).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

import click
from report.outcomes import Arm, Outcome, table, write
from rich.console import Console

from agentrl_components.errors import Stopped
from agentrl_components.evaluation.heldout import RANDOM
from agentrl_components.run.context import RunContext
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.spec import AgentRLRun
from agentrl_components.spec.fields.horizon import Horizon, Phase
from agentrl_components.spec.parsing.load import load
from agentrl_components.stages.before_training import prepare
from agentrl_components.stages.evaluate import evaluate
from agentrl_components.stages.provision import provision
from agentrl_components.stages.train import train
from agentrl_components.storage import checkpoint, keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.tracking.tracker import MemoryTracker

UNTIL_STOPPED = 1_000_000
"""Iterations of a phase that ends when its share of turns is used."""


@click.command()
@click.option("--manifest", default="examples/babyai.yaml", show_default=True)
@click.option(
    "--seeds", default=5, show_default=True, help="Number of seeds; the seeds are 0, 1, ..."
)
@click.option("--turns", default=60_000, show_default=True, help="Environment turns per arm.")
@click.option("--staged", default="3,6,20", show_default=True, help="Horizons of the staged arm.")
@click.option("--fixed", default="4,8,20", show_default=True, help="Horizon of each other arm.")
@click.option("--tasks", default=400, show_default=True, help="Held-out tasks.")
@click.option("--quick", is_flag=True, help="Smoke test: two seeds, 400 turns, 20 tasks.")
@click.option(
    "--root", default="runs/horizon", show_default=True, help="Folder for the results of arms."
)
@click.option("--out", default="benchmarks/results/horizon.json", show_default=True)
def main(
    manifest: str,
    seeds: int,
    turns: int,
    staged: str,
    fixed: str,
    tasks: int,
    quick: bool,
    root: str,
    out: str,
) -> None:
    """Train every arm of every seed, print a table, write JSON and a figure."""
    overrides = [f"evaluation.tasks={tasks}"]
    if quick:
        seeds, turns, root = 2, 400, f"{root}-quick"
        overrides = [
            "evaluation.tasks=20",
            "warmStart.episodes=100",
            "rollout.tasks=4",
            "compute.workers=1",
        ]
    horizons = numbers(staged)
    arms = (
        Arm(name="staged", horizons=horizons, ends=ends(len(horizons))),
        *(Arm(name=f"fixed {one}", horizons=(one,), ends=(1.0,)) for one in numbers(fixed)),
    )
    outcomes: list[Outcome] = []
    for seed in range(seeds):
        run = load(
            Path(manifest),
            [
                *overrides,
                f"seed={seed}",
                f"evaluation.maxTurns={horizons[-1]}",
                "update.checkpointEvery=100000",
            ],
        )
        of_seed = Path(root) / f"limit-{horizons[-1]}" / f"seed-{seed}"
        warm = DirectoryStore(of_seed / "warm")
        before, chance = warm_start(run, warm)
        for arm in arms:
            place = of_seed / f"{'-'.join(map(str, arm.horizons))}-for-{turns}"
            outcome = train_arm(run, arm, turns, warm, place, before, chance)
            outcomes.append(outcome)
            click.echo(
                f"seed {seed} {arm.name}: {before:.1%} -> {outcome.success:.1%}, "
                f"{outcome.turns} turns, {outcome.cpu_seconds:.0f} CPU s"
            )
    Console().print(table(arms, outcomes))
    write(Path(out), arms, outcomes, turns)


def numbers(listed: str) -> tuple[int, ...]:
    """The numbers in a list that is separated by commas."""
    return tuple(int(one) for one in listed.split(","))


def ends(phases: int) -> tuple[float, ...]:
    """Shares of the turns at which the phases end: 25, 55 and 100 % for three phases; else equal
    shares."""
    return (0.25, 0.55, 1.0) if phases == 3 else tuple((i + 1) / phases for i in range(phases))


def warm_start(run: AgentRLRun, store: DirectoryStore) -> tuple[float, float]:
    """Create the warm start unless it exists. Returns the held-out success after it and that of a
    random policy."""
    with open_run(run, store, lambda: None) as context:
        context.workers.loop.run(provision(run, context.workers.worlds, context.journal))
        prepare(context)
        return evaluate(context, keys.BEFORE).success, evaluate(context, RANDOM).success


def train_arm(
    run: AgentRLRun,
    arm: Arm,
    turns: int,
    warm: DirectoryStore,
    place: Path,
    before: float,
    chance: float,
) -> Outcome:
    """Train one arm from the warm start until its turns are used, or load its stored outcome."""
    kept = place / "outcome.json"
    if kept.exists():
        record = json.loads(kept.read_text())
        return Outcome(**record | {"curve": tuple(map(tuple, record["curve"]))})
    # An interrupted arm starts again, because its processor seconds are not known.
    shutil.rmtree(place, ignore_errors=True)
    store = DirectoryStore(place / "store")
    checkpoint.save(store, checkpoint.load(warm, 0))
    budget = TurnBudget(store)
    with open_run(run, store, budget.reason) as context:
        began = processor_s(os.getpid())
        done: list[Phase] = []
        for max_turns, end in zip(arm.horizons, arm.ends, strict=True):
            budget.limit = round(end * turns)
            phase = Phase(max_turns=max_turns, iterations=UNTIL_STOPPED)
            context.spec = context.spec.model_copy(
                update={"horizon": Horizon(phases=(*done, phase))}
            )
            # The last iteration of a phase can exceed its limit by more than the next phase has.
            if budget.reason() is None:
                with suppress(Stopped):
                    train(context, len(done))
            iterations = len(context.history) - sum(one.iterations for one in done)
            if iterations:
                done.append(Phase(max_turns=max_turns, iterations=iterations))
        cpu = processor_s(os.getpid()) - began
        budget.limit = None  # an evaluation is not part of it
        after = evaluate(context, keys.AFTER)
        outcome = Outcome(
            arm=arm.name,
            seed=run.spec.seed,
            success=after.success,
            low=after.low,
            high=after.high,
            n=after.n,
            before=before,
            random=chance,
            turns=budget.turns,
            iterations=len(context.history),
            cpu_seconds=cpu,
            curve=tuple(budget.curve),
        )
    kept.write_text(json.dumps(asdict(outcome)))
    return outcome


class TurnBudget:
    """Counts the environment turns of a run from its stored records, and stops it at a limit."""

    def __init__(self, store: DirectoryStore) -> None:
        self._store = store
        self.turns = 0
        self.limit: int | None = 0
        """None: there is none."""
        self.curve: list[tuple[int, float]] = []

    def reason(self) -> str | None:
        """Reason to stop training now, or None."""
        while self._store.exists(keys.iteration(len(self.curve))):
            record = json.loads(self._store.get(keys.iteration(len(self.curve))))["metrics"]
            self.turns += int(record["train/environment_turns"])
            self.curve.append((self.turns, record["train/success"]))
        used = self.limit is not None and self.turns >= self.limit
        return "the turns of the phase are used" if used else None


@contextmanager
def open_run(run: AgentRLRun, store: DirectoryStore, should_stop: object) -> Iterator[RunContext]:
    """Context of a run without a progress view."""
    assert callable(should_stop)
    context = RunContext(run, store, MemoryTracker(), SilentProgressView(), should_stop)
    with context:
        yield context


def processor_s(pid: int) -> float:
    """Processor seconds of a process and its running descendants, from /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return ticks / os.sysconf("SC_CLK_TCK") + sum(processor_s(int(child)) for child in children)


if __name__ == "__main__":
    main()
