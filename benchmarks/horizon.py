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

import io
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from agentrl_components import checkpoint, layout
from agentrl_components.context import RunContext
from agentrl_components.errors import Stopped
from agentrl_components.exam import RANDOM
from agentrl_components.intervals import Interval, bootstrap_mean, bootstrap_paired
from agentrl_components.spec import AgentRLRun
from agentrl_components.spec.horizon import Horizon, Phase
from agentrl_components.spec.load import load
from agentrl_components.stages.begin import BEFORE, begin
from agentrl_components.stages.evaluate import AFTER, evaluate
from agentrl_components.stages.provision import provision
from agentrl_components.stages.train import train
from agentrl_components.stores import DirectoryStore
from agentrl_components.tracker import MemoryTracker
from agentrl_components.view import SilentView

UNTIL_STOPPED = 1_000_000
"""Iterations of a phase that is ended by its turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A schedule: horizons, and the shares of all turns at which each ends."""

    name: str
    horizons: tuple[int, ...]
    ends: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One arm of one seed."""

    arm: str
    seed: int
    success: float
    low: float
    high: float
    """Held-out success and its 95 % interval over tasks."""
    n: int
    before: float
    """After the warm start."""
    random: float
    turns: int
    """Environment turns that training took."""
    iterations: int
    cpu_seconds: float
    curve: tuple[tuple[int, float], ...]
    """Turns so far and training success, by iteration."""


@click.command()
@click.option("--manifest", default="examples/babyai.yaml", show_default=True)
@click.option("--seeds", default=5, show_default=True, help="0, 1, ...")
@click.option("--turns", default=90_000, show_default=True, help="Environment turns of an arm.")
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
        context.crew.home.run(provision(run, context.crew.worlds, context.journal))
        begin(context)
        return evaluate(context, BEFORE).success, evaluate(context, RANDOM).success


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
        while self._store.exists(layout.iteration(len(self.curve))):
            told = json.loads(self._store.get(layout.iteration(len(self.curve))))["metrics"]
            self.turns += int(told["train/environment_turns"])
            self.curve.append((self.turns, told["train/success"]))
        return "its turns are spent" if self.turns >= self.limit else None


@contextmanager
def opened(run: AgentRLRun, store: DirectoryStore, should_stop: object) -> Iterator[RunContext]:
    """A run's context, with nobody watching."""
    assert callable(should_stop)
    context = RunContext(run, store, MemoryTracker(), SilentView(), should_stop)
    with context:
        yield context


def processor_s(pid: int) -> float:
    """Processor seconds of a process and its children that still run, as Linux tells."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return ticks / os.sysconf("SC_CLK_TCK") + sum(processor_s(int(child)) for child in children)


def successes(outcomes: Sequence[Outcome], arm: str) -> list[float]:
    """Held-out success of an arm, by seed."""
    return [one.success for one in outcomes if one.arm == arm]


def difference(outcomes: Sequence[Outcome], arm: str) -> Interval:
    """The staged arm's success less that of `arm`, paired by seed."""
    return bootstrap_paired(successes(outcomes, "staged"), successes(outcomes, arm), seed=0)


def table(arms: Sequence[Arm], outcomes: Sequence[Outcome]) -> Table:
    """As a person reads it."""
    shown = Table(title="held-out success at equal environment turns, by seed")
    for column in ("arm", "horizon", "seeds", "mean [95 %]", "staged is ahead by", "CPU s"):
        shown.add_column(column)
    for arm in arms:
        mean = bootstrap_mean(successes(outcomes, arm.name), seed=0)
        ahead = "" if arm.name == "staged" else percent(difference(outcomes, arm.name))
        cpu = [one.cpu_seconds for one in outcomes if one.arm == arm.name]
        shown.add_row(
            arm.name,
            " ".join(map(str, arm.horizons)),
            " ".join(f"{100 * one:.1f}" for one in successes(outcomes, arm.name)),
            percent(mean),
            ahead,
            f"{np.mean(cpu):.0f} ({min(cpu):.0f}-{max(cpu):.0f})",
        )
    return shown


def percent(interval: Interval) -> str:
    """An interval in per cent."""
    return f"{100 * interval.estimate:.1f} [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"


def write(path: Path, arms: Sequence[Arm], outcomes: Sequence[Outcome], turns: int) -> None:
    """Everything as JSON, and a figure beside it."""
    summary = {
        arm.name: {
            "horizons": arm.horizons,
            "mean": asdict(bootstrap_mean(successes(outcomes, arm.name), seed=0)),
            "staged_ahead": asdict(difference(outcomes, arm.name)),
            "cpu_seconds": [one.cpu_seconds for one in outcomes if one.arm == arm.name],
        }
        for arm in arms
    }
    written = {
        "cores": os.cpu_count(),
        "turns": turns,
        "summary": summary,
        "outcomes": [asdict(one) for one in outcomes],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(written, indent=1) + "\n")
    path.with_suffix(".png").write_bytes(drawn(arms, outcomes))
    click.echo(f"written: {path} and {path.with_suffix('.png')}")


def drawn(arms: Sequence[Arm], outcomes: Sequence[Outcome]) -> bytes:
    """A figure: success of every seed and the means' intervals; training success over turns."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.6))
    for place, (arm, colour) in enumerate(
        zip(arms, ("#2f7fd1", "#8a93a0", "#d9622b"), strict=True)
    ):
        found = successes(outcomes, arm.name)
        mean = bootstrap_mean(found, seed=0)
        left.plot([place] * len(found), found, "o", color=colour, alpha=0.4)
        left.plot([place + 0.2] * 2, [mean.low, mean.high], color=colour, linewidth=2)
        left.plot(place + 0.2, mean.estimate, "D", color=colour)
        for one in outcomes:
            if one.arm == arm.name:
                turns, success = np.array(one.curve).T
                window = min(10, len(success))
                smooth = np.convolve(success, np.ones(window) / window, "valid")
                first = one.seed == 0
                right.plot(
                    turns[window - 1 :],
                    smooth,
                    color=colour,
                    alpha=0.6,
                    linewidth=1,
                    label=f"{arm.name} {'-'.join(map(str, arm.horizons))}" if first else None,
                )
    left.set_xticks(range(len(arms)), [arm.name for arm in arms])
    left.set_xlim(-0.4, len(arms) - 0.4)
    left.set_ylabel("held-out success")
    right.set_xlabel("environment turns")
    right.set_ylabel("training success at the arm's own horizon")
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


if __name__ == "__main__":
    main()
