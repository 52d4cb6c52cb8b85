"""A run on Ray whose processes are killed at random moments, compared with a calm run.

    python benchmarks/kills.py --kills 20 --out benchmarks/results/kills.json

The run is a tiny one on an embedded Ray, started as `agentrl run`. SIGKILL goes to a trainer, a
sampler, the raylet, the head (GCS) or the driver, each as often as the others, in random order. One
kill in four comes while the run starts, or starts again; the others at a moment of an iteration,
which is drawn evenly from those that are left. Moments are counted in iterations, not in seconds,
so that a machine with other work does not shift them. A victim that does not exist then is killed
as soon as it does. When the driver is gone, or the command ended with an error, the same command is
given again. A run that ends is compared with the calm one, and the next one begins, until all kills
are done. Processes that a dead driver has left are counted.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click
import psutil
from report.machine import machine

from agentrl_components.storage import checkpoint, keys
from agentrl_components.storage.open import DirectoryStore

MANIFEST = """
apiVersion: agentrl.dev/v1alpha1
kind: AgentRLRun
metadata: {name: kills}
spec:
  model:
    source: tiny
    context: 64
    tiny: {layers: 1, hidden: 32, heads: 2, kvHeads: 1, intermediate: 32}
  environments: [{name: corridor, builtin: corridor}]
  warmStart: {algorithm: filtered-imitation, episodes: 60, maxTurns: 5, batch: 8}
  horizon: {phases: [{maxTurns: 2, iterations: ITERATIONS}, {maxTurns: 4, iterations: ITERATIONS}]}
  rollout: {tasks: 6, groupSize: 4, actions: admissible, maxTokensPerTurn: 4}
  update: {learningRate: 3.0e-3, miniBatch: 8, microBatchTokens: 256, checkpointEvery: 2}
  evaluation: {tasks: 12, every: 3}
  compute: {ray: embedded, trainers: {count: 2}, samplers: {count: 2}}
"""
RUN = "from agentrl_pipelines.cli.main import main; main()"
VICTIMS = {
    "trainer": "ray::RankActor",
    "sampler": "ray::Sampler",
    "raylet": "raylet",
    "head": "gcs_server",
    "driver": "",
}
"""How the command line, or the name, of a victim's process begins."""
GONE_S = 90.0
"""How long the processes of a driver that was killed may take to end. Agents of Ray need 60 s: they
wait so long for their head, to which they want to tell that their raylet has died."""
POLL_S = 0.1
START_SHARE = 0.25
"""Share of the kills that come before the run writes an iteration, or another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A process that was killed."""

    victim: str
    seconds: float
    """Since the beginning of the run, or the last kill in it."""
    iteration: int
    """Iterations that were written before."""
    written: int
    """Those of them that were written since the beginning of the run, or the last kill in it; 0:
    the run was starting."""
    recovered_s: float | None
    """Seconds until the next iteration was written; None if the run was killed again before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast the calm run was."""

    iterations: int
    """Of the whole run."""
    start_s: float
    """Seconds until the first iteration was written."""
    iteration_s: float
    """Mean seconds of the others."""

    def draw(self, draws: random.Random, written: int) -> tuple[int, float]:
        """The moment of a kill: so many seconds after so many iterations are written."""
        if draws.random() < START_SHARE or written + 1 >= self.iterations:
            return written, draws.uniform(0, self.start_s)
        return draws.randint(written + 1, self.iterations - 1), draws.uniform(0, self.iteration_s)


class Command:
    """`agentrl run` on a folder, given again until the run ends."""

    def __init__(self, manifest: Path, root: Path) -> None:
        self._manifest, self._root = manifest, root
        self.started = 0
        """How often the command was given."""
        self.failed: list[str] = []
        """Last lines of commands that ended with an error by themselves."""
        self.left: list[str] = []
        """Names of processes that were still there `GONE_S` after their driver was killed."""
        self.process = self._start()

    @property
    def iterations(self) -> int:
        """Iterations that are written."""
        return len(list((self._root / "store" / keys.ITERATIONS).glob("*.json")))

    def running(self) -> bool:
        """Whether the run is not at its end. Gives the command again if it ended with an error."""
        code = self.process.poll()
        if code == 0:
            return False
        if code is not None:
            if code > 0:
                self.failed.append(self._log.read_text().strip().splitlines()[-1][-300:])
            self.process = self._start()
        return True

    def find(self, victim: str) -> psutil.Process | None:
        """A process that can be killed as `victim`."""
        with suppress(psutil.NoSuchProcess):
            driver = psutil.Process(self.process.pid)
            if victim == "driver":
                return driver
            for each in driver.children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    # An actor at work is called `ray::Sampler.play`.
                    wanted = VICTIMS[victim]
                    if each.name() == wanted or name_of(each).startswith(wanted):
                        return each
        return None

    def kill(self, process: psutil.Process) -> None:
        """SIGKILL. Waits for the end of what a driver has started."""
        below = process.children(recursive=True) if process.pid == self.process.pid else []
        process.kill()
        if below:
            self.process.wait()
            _, alive = psutil.wait_procs(below, timeout=GONE_S)
            self.left += map(name_of, alive)

    def _start(self) -> subprocess.Popen[bytes]:
        self.started += 1
        self._log = self._root.with_suffix(f".{self.started}.log")
        with self._log.open("w") as log:
            return subprocess.Popen(
                [sys.executable, "-c", RUN, "run", str(self._manifest), "--root", str(self._root)],
                stdout=log,
                stderr=log,
            )


def name_of(process: psutil.Process) -> str:
    """What a process calls itself; its state if it has ended."""
    with suppress(psutil.NoSuchProcess):
        return str((process.cmdline() or [process.status()])[0])
    return "gone"


@click.command()
@click.option("--kills", default=20, show_default=True)
@click.option("--iterations", default=60, show_default=True, help="Of each of the two phases.")
@click.option("--seed", default=0, show_default=True)
@click.option("--out", "path", default="benchmarks/results/kills.json", show_default=True)
def main(kills: int, iterations: int, seed: int, path: str) -> None:
    """Kill processes of runs, compare the results with those of a calm run, and write JSON."""
    began = time.monotonic()
    draws = random.Random(seed)
    victims = [list(VICTIMS)[number % len(VICTIMS)] for number in range(kills)]
    draws.shuffle(victims)
    done: list[Kill] = []
    commands: list[Command] = []
    equal: list[bool] = []
    with tempfile.TemporaryDirectory(prefix="agentrl-kills-") as scratch:
        manifest = Path(scratch) / "run.yaml"
        manifest.write_text(MANIFEST.replace("ITERATIONS", str(iterations)))
        calm = Command(manifest, Path(scratch) / "calm")
        while calm.running() and not calm.iterations:
            time.sleep(POLL_S)
        start_s = time.monotonic() - began
        while calm.running():
            time.sleep(POLL_S)
        calm_s = time.monotonic() - began
        total = 2 * iterations
        pace = Pace(iterations=total, start_s=start_s, iteration_s=(calm_s - start_s) / (total - 1))
        expected = results(Path(scratch) / "calm", total)
        while len(done) < kills:
            root = Path(scratch) / f"run{len(commands)}"
            commands.append(Command(manifest, root))
            done += disturb(commands[-1], victims[len(done) :], draws, pace)
            equal.append(results(root, total) == expected)
            written = {
                **machine(),
                "seconds of the calm run": round(calm_s, 1),
                "equal to the calm run": f"{sum(equal)} of {len(equal)} runs",
                **summary(done, commands),
            }
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(json.dumps(written, indent=2) + "\n")
            click.echo(f"{len(done)} kills, run {len(commands)} equal: {equal[-1]}")
    click.echo(json.dumps(written, indent=2))
    raise SystemExit(0 if all(equal) and not any(one.left for one in commands) else 1)


def summary(done: Sequence[Kill], commands: Sequence[Command]) -> dict[str, object]:
    """What was killed, and what followed."""
    recovered = sorted(one.recovered_s for one in done if one.recovered_s is not None)
    return {
        "kills": len(done),
        "victims": Counter(one.victim for one in done),
        "kills in training": sum(one.written > 0 for one in done),
        "commands given": sum(one.started for one in commands),
        "commands that ended with an error": [line for one in commands for line in one.failed],
        "processes left by dead drivers": [name for one in commands for name in one.left],
        "seconds until the next iteration": {
            "median": recovered[len(recovered) // 2] if recovered else None,
            "most": max(recovered, default=None),
        },
        "each": [asdict(one) for one in done],
    }


def disturb(
    command: Command, victims: Sequence[str], draws: random.Random, pace: Pace
) -> list[Kill]:
    """Kill one victim after the other until the run ends. Returns the kills that were done."""
    done: list[Kill] = []
    waiting = list(victims)
    since, before = time.monotonic(), 0
    """When the run began or something was last killed, and the iterations that were written."""
    reached = since
    """When the iteration of the next kill was reached, or the wait for it began."""
    due, delay_s = pace.draw(draws, before)
    while command.running():
        time.sleep(POLL_S)
        now, iterations = time.monotonic(), command.iterations
        if iterations < due:
            reached = now
        if done and done[-1].recovered_s is None and iterations > before:
            done[-1] = replace(done[-1], recovered_s=round(now - since, 1))
        victim = command.find(waiting[0]) if waiting and now - reached >= delay_s else None
        if victim is not None:
            with suppress(psutil.NoSuchProcess):
                command.kill(victim)
                done.append(
                    Kill(
                        victim=waiting.pop(0),
                        seconds=round(now - since, 1),
                        iteration=iterations,
                        written=iterations - before,
                        recovered_s=None,
                    )
                )
                since, before = time.monotonic(), iterations
                reached = since
                due, delay_s = pace.draw(draws, before)
    return done


def results(root: Path, iterations: int) -> tuple[str, object, bytes]:
    """Metrics, held-out results and the last weights of a run: all that must not differ."""
    metrics = subprocess.run(
        [sys.executable, "-c", RUN, "metrics", "--root", str(root)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    heldout = json.loads((root / "report.json").read_text())["heldout"]
    store = DirectoryStore(root / "store")
    assert checkpoint.complete(store)[-1] == iterations
    return metrics, heldout, store.get(keys.checkpoint(iterations, "model.safetensors"))


if __name__ == "__main__":
    main()
