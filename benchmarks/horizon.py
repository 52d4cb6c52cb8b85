"""The paper's claim: a growing horizon against a short and a long one, at equal environment turns.

    python benchmarks/horizon.py --root runs/horizon --out benchmarks/results/horizon.json
    python benchmarks/horizon.py --quick

ScalingInter-RL (arXiv 2509.08755, section 3.3) on the set-up of a manifest (examples/babyai.yaml).
For every seed one warm start is made; each arm continues from that same checkpoint, optimizer and
all, and trains until its episodes have taken `--turns` environment turns. The staged arm lengthens
its horizon when 25 % and 55 % of them are spent. All are then evaluated on the same held-out tasks
with the same cap.

Arms are told apart by nothing else: seed, tasks, learning rate and mini-batches are the
manifest's. A finished arm is kept under `--root`; the same command goes on where it was ended.

Reported: held-out success by seed; its mean with the bootstrap interval over seeds; the mean
difference of the staged arm to the others, paired by seed; processor seconds of training (all
processes, evaluation left out).
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
from outcomes import Arm, Outcome, table, write
from rich.console import Console

from agentrl_components.errors import Stopped
from agentrl_components.evaluation.heldout import RANDOM
from agentrl_components.run.context import RunContext
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.spec import AgentRLRun
from agentrl_components.spec.fields.horizon import Horizon, Phase
from agentrl_components.spec.parsing.load import load
from agentrl_components.stages.before_training import prepare
from agentrl_components.stages.evaluate import AFTER, evaluate
from agentrl_components.stages.provision import provision
from agentrl_components.stages.train import train
from agentrl_components.storage import checkpoint, keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.tracking.tracker import MemoryTracker

UNTIL_STOPPED = 1_000_000
"""Iterations of a phase that is ended by its turns."""


@click.command()
@click.option("--manifest", default="examples/babyai.yaml", show_default=True)
@click.option("--seeds", default=5, show_default=True, help="0, 1, ...")
@click.option("--turns", default=60_000, show_default=True, help="Environment turns of an arm.")
@click.option("--staged", default="3,5,8", show_default=True, help="Horizons of the staged arm.")
@click.option("--short", default=4, show_default=True, help="Horizon of the short arm.")
@click.option("--tasks", default=400, show_default=True, help="Held-out tasks.")
@click.option("--quick", is_flag=True, help="Two seeds, 400 turns, 20 tasks: does it work?")
@click.option("--root", default="runs/horizon", show_default=True, help="Where arms are kept.")
@click.option("--out", default="benchmarks/results/horizon.json", show_default=True)
def main(
    manifest: str,
    seeds: int,
    turns: int,
    staged: str,
    short: int,
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
    horizons = tuple(int(one) for one in staged.split(","))
    arms = (
        Arm(name="staged", horizons=horizons, ends=ends(len(horizons))),
        Arm(name="short", horizons=(short,), ends=(1.0,)),
        Arm(name="long", horizons=(horizons[-1],), ends=(1.0,)),
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
        warm = DirectoryStore(Path(root) / f"seed-{seed}" / "warm")
        before, chance = warmed(run, warm)
        for arm in arms:
            place = Path(root) / f"seed-{seed}" / f"{arm.name}-{turns}"
            outcome = trained(run, arm, turns, warm, place, before, chance)
            outcomes.append(outcome)
            click.echo(
                f"seed {seed} {arm.name}: {before:.1%} -> {outcome.success:.1%}, "
                f"{outcome.turns} turns, {outcome.cpu_seconds:.0f} CPU s"
            )
    Console().print(table(arms, outcomes))
    write(Path(out), arms, outcomes, turns)


def ends(phases: int) -> tuple[float, ...]:
    """Shares of the turns at which the phases end: 25 %, 55 %, 100 % of three; of another number,
    evenly."""
    return (0.25, 0.55, 1.0) if phases == 3 else tuple((i + 1) / phases for i in range(phases))


def warmed(run: AgentRLRun, store: DirectoryStore) -> tuple[float, float]:
    """Make the warm start, if it is not there. Returns held-out success after it and of random
    play."""
    with opened(run, store, lambda: None) as context:
        context.workers.loop.run(provision(run, context.workers.worlds, context.journal))
        prepare(context)
        return evaluate(context, keys.BEFORE).success, evaluate(context, RANDOM).success


def trained(
    run: AgentRLRun,
    arm: Arm,
    turns: int,
    warm: DirectoryStore,
    place: Path,
    before: float,
    chance: float,
) -> Outcome:
    """Train one arm from the warm start until its turns are spent, unless that is done already."""
    kept = place / "outcome.json"
    if kept.exists():
        told = json.loads(kept.read_text())
        return Outcome(**told | {"curve": tuple(map(tuple, told["curve"]))})
    # An arm that was ended half way is played anew: its processor seconds would not be known.
    shutil.rmtree(place, ignore_errors=True)
    store = DirectoryStore(place / "store")
    checkpoint.save(store, checkpoint.load(warm, 0))
    spent = Spent(store)
    with opened(run, store, spent.reason) as context:
        began = processor_s(os.getpid())
        done: list[Phase] = []
        for max_turns, end in zip(arm.horizons, arm.ends, strict=True):
            spent.limit = round(end * turns)
            phase = Phase(max_turns=max_turns, iterations=UNTIL_STOPPED)
            context.spec = context.spec.model_copy(
                update={"horizon": Horizon(phases=(*done, phase))}
            )
            # The turns of an iteration are known when it is over, so a phase may be over already.
            if spent.reason() is None:
                with suppress(Stopped):
                    train(context, len(done))
            iterations = len(context.history) - sum(one.iterations for one in done)
            if iterations:
                done.append(Phase(max_turns=max_turns, iterations=iterations))
        cpu = processor_s(os.getpid()) - began
        after = evaluate(context, AFTER)
        outcome = Outcome(
            arm=arm.name,
            seed=run.spec.seed,
            success=after.success,
            low=after.low,
            high=after.high,
            n=after.n,
            before=before,
            random=chance,
            turns=spent.turns,
            iterations=len(context.history),
            cpu_seconds=cpu,
            curve=tuple(spent.curve),
        )
    kept.write_text(json.dumps(asdict(outcome)))
    return outcome


class Spent:
    """Counts the environment turns of a run by its journal, and says when it has had its share."""

    def __init__(self, store: DirectoryStore) -> None:
        self._store = store
        self.turns = 0
        self.limit = 0
        self.curve: list[tuple[int, float]] = []

    def reason(self) -> str | None:
        """Why training should pause here, if it should."""
        while self._store.exists(keys.iteration(len(self.curve))):
            told = json.loads(self._store.get(keys.iteration(len(self.curve))))["metrics"]
            self.turns += int(told["train/environment_turns"])
            self.curve.append((self.turns, told["train/success"]))
        return "its turns are spent" if self.turns >= self.limit else None


@contextmanager
def opened(run: AgentRLRun, store: DirectoryStore, should_stop: object) -> Iterator[RunContext]:
    """A run's context, with nobody watching."""
    assert callable(should_stop)
    context = RunContext(run, store, MemoryTracker(), SilentProgressView(), should_stop)
    with context:
        yield context


def processor_s(pid: int) -> float:
    """Processor seconds of a process and its children that still run, as Linux tells."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return ticks / os.sysconf("SC_CLK_TCK") + sum(processor_s(int(child)) for child in children)


if __name__ == "__main__":
    main()
