"""Update throughput of AgentRL and TRL on episodes whose lengths differ widely.

    python benchmarks/update.py --out benchmarks/results/update.json
    python benchmarks/update.py --quick

Both take optimizer steps on the same episodes. Their lengths are quantiles of a lognormal
distribution whose largest value is `--skew` times the median; replies and observations alternate.
One GRPO step over all episodes is timed: forward, backward and AdamW.

- AgentRL: `Learner.update` on worker processes of one thread. It packs episodes without padding
  and computes logits only where a sampled token is predicted.
- TRL: `GRPOTrainer.training_step` with as many threads, on micro-batches padded to the longest
  episode. Several micro-batch sizes are tried, and the best one counts.

Column `tok/s`: tokens sampled by the agent (those with a loss) per second, median of the repeats.
"""

from __future__ import annotations

import json
import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import click
import numpy as np
from peer import process as peer
from report.machine import machine
from rich.console import Console
from rich.table import Table
from workload import models, workers

from agentrl_components.trajectory.record import Ending, Trajectory, Turn

PROMPT, REPLY, OBSERVATION = 24, 24, 20
"""Tokens of the prompt, of each reply and of each observation."""
GROUP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Results of one model; `ours` and `trl` have the seconds of each repeat."""

    model: str
    parameters: int
    lengths: tuple[int, ...]
    """Tokens of each episode, including the prompt."""
    trained: int
    """Tokens with a loss."""
    ours: tuple[float, ...]
    trl: dict[int, tuple[float, ...]]
    """By number of episodes per micro-batch."""

    def ours_rate(self) -> float:
        """Trained tokens per second of AgentRL."""
        return self.trained / statistics.median(self.ours)

    def trl_rate(self) -> float | None:
        """Trained tokens per second of TRL with its best micro-batch, or None without TRL."""
        if not self.trl:
            return None
        return self.trained / min(map(statistics.median, self.trl.values()))

    def ratio(self) -> float | None:
        """AgentRL's rate divided by TRL's, or None without TRL."""
        best = self.trl_rate()
        return None if best is None else self.ours_rate() / best


@click.command()
@click.option("--sizes", default=",".join(models.SIZES), show_default=True)
@click.option("--episodes", default=64, show_default=True)
@click.option("--median", default=160, show_default=True, help="Median length in tokens.")
@click.option(
    "--skew", default=8.0, show_default=True, help="Longest length divided by the median."
)
@click.option("--repeats", default=3, show_default=True)
@click.option(
    "--cores", default=2, show_default=True, help="Threads of TRL and workers of AgentRL."
)
@click.option(
    "--micro", default="8,64", show_default=True, help="TRL's micro-batch sizes in episodes."
)
@click.option(
    "--pack-tokens", default=2048, show_default=True, help="AgentRL's update.microBatchTokens."
)
@click.option("--quick", is_flag=True, help="Half as many episodes of half the length, one repeat.")
@click.option("--no-peer", is_flag=True, help="Measure AgentRL only.")
@click.option("--out", default="benchmarks/results/update.json", show_default=True)
@peer.option
def main(
    sizes: str,
    episodes: int,
    median: int,
    skew: float,
    repeats: int,
    cores: int,
    micro: str,
    pack_tokens: int,
    quick: bool,
    no_peer: bool,
    out: str,
    peer_python: str,
) -> None:
    """Compare update throughput with TRL: print a table and write JSON."""
    if not no_peer:
        peer.require(peer_python)
    if quick:
        episodes, median, repeats = episodes // 2, median // 2, 1
    masks = [mask(length) for length in skewed(episodes, median, skew)]
    micros = [] if no_peer else [int(one) for one in micro.split(",")]
    results: list[Result] = []
    versions: dict[str, Any] = {}
    for name in sizes.split(","):
        with tempfile.TemporaryDirectory(prefix="agentrl-bench-") as scratch:
            folder = Path(scratch)
            parameters = models.make(models.SIZES[name], folder)
            update = {"miniBatch": episodes, "microBatchTokens": pack_tokens, "learningRate": 1e-4}
            algorithm = {"importanceSampling": {"mode": "off"}}  # as in the TRL setup
            with (
                workers.opened(folder, cores, update=update, algorithm=algorithm) as ours,
                peer.started_if(not no_peer, peer_python, folder, cores) as trl,
            ):
                if trl is not None:
                    versions = trl.ask(do="versions")
                seconds, others = measure(ours, trl, masks, micros, repeats)
        result = Result(
            model=name,
            parameters=parameters,
            lengths=tuple(len(one) for one in masks),
            trained=sum(int(one.sum()) for one in masks),
            ours=seconds,
            trl=others,
        )
        results.append(result)
        ratio = result.ratio()
        beside = "" if ratio is None else f", ratio to TRL {ratio:.1f}"
        click.echo(f"{name}: AgentRL {result.ours_rate():,.0f} tok/s{beside}")
    Console().print(table(results))
    written = {
        "machine": machine(),
        "peer": versions,
        "results": [asdict(result) | {"ratio": result.ratio()} for result in results],
    }
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    Path(out).write_text(json.dumps(written, indent=1) + "\n")
    click.echo(f"written: {out}")


def measure(
    ours: workers.Workers,
    trl: peer.Peer | None,
    masks: Sequence[np.ndarray[Any, np.dtype[np.bool_]]],
    micros: Sequence[int],
    repeats: int,
) -> tuple[tuple[float, ...], dict[int, tuple[float, ...]]]:
    """Measure AgentRL and TRL alternately, after one warm-up each.

    Returns the seconds of AgentRL's repeats and those of TRL by micro-batch size.
    """
    played = [episode(number, one) for number, one in enumerate(masks)]
    advantages = [1.0 if number % 2 else -1.0 for number in range(len(masks))]
    batch = {
        "prompts": [PROMPT] * len(masks),
        "replies": [one[PROMPT:].tolist() for one in masks],
        "advantages": advantages,
    }
    seconds: list[float] = []
    others: dict[int, list[float]] = {micro: [] for micro in micros}
    for repeat in range(repeats + 1):
        began = time.perf_counter()
        updated = ours.learner.update(played, repeat, 1e-4)
        seconds.append(time.perf_counter() - began)
        assert updated.steps == 1
        if trl is not None:
            for micro, times in others.items():
                times.append(trl.ask(do="update", micro=micro, **batch)["seconds"])
    return tuple(seconds[1:]), {micro: tuple(times[1:]) for micro, times in others.items()}


def skewed(count: int, median: int, skew: float) -> list[int]:
    """`count` lengths in random order: quantiles of a lognormal distribution whose largest value is
    `skew` times the median."""
    normal = NormalDist()
    deviations = [normal.inv_cdf((i + 0.5) / count) for i in range(count)]
    scale = math.log(skew) / deviations[-1]
    lengths = [round(median * math.exp(scale * deviation)) for deviation in deviations]
    order = np.random.default_rng(0).permutation(count)
    return [max(PROMPT + REPLY, lengths[i]) for i in order]


def mask(length: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Mask of shape `(length,)` of the tokens that the agent sampled: replies and observations
    alternate after the prompt, and the last token is always sampled."""
    place = np.arange(length) - PROMPT
    own = (place >= 0) & (place % (REPLY + OBSERVATION) < REPLY)
    own[-1] = True
    return own


def episode(number: int, own: np.ndarray[Any, np.dtype[np.bool_]]) -> Trajectory:
    """An episode of random tokens; episodes with an odd number succeed."""
    draw = np.random.default_rng(number)
    reward = float(number % 2)
    return Trajectory(
        environment="room",
        task=f"room-{number // GROUP:016x}",
        category="room",
        group=number // GROUP,
        sample=number % GROUP,
        iteration=0,
        ids=draw.integers(4, 300, len(own)).astype(np.int32),
        mask=own,
        logprobs=np.where(own, -6.0, 0.0).astype(np.float32),
        allowed=None,
        turns=(
            Turn(
                start=PROMPT,
                end=len(own),
                reward=reward,
                wellformed=True,
                action="",
                observation="",
                version=0,
            ),
        ),
        ending=Ending.TERMINATED,
        score=reward,
        raw_score=reward,
        success=bool(reward),
        max_turns=64,
    )


def table(results: Sequence[Result]) -> Table:
    """Table of the results for the terminal."""
    first = results[0]
    shown = Table(
        title=f"one GRPO step on {len(first.lengths)} episodes of {min(first.lengths)} to "
        f"{max(first.lengths)} tokens, median {statistics.median(first.lengths):g}"
    )
    for column in (
        "model",
        "AgentRL tok/s",
        "TRL tok/s",
        "ratio",
        "AgentRL s",
        "TRL s by micro-batch",
    ):
        shown.add_column(column, justify="right")
    for result in results:
        rate, ratio = result.trl_rate(), result.ratio()
        shown.add_row(
            result.model,
            f"{result.ours_rate():,.0f}",
            "-" if rate is None else f"{rate:,.0f}",
            "-" if ratio is None else f"{ratio:.1f}",
            f"{statistics.median(result.ours):.2f}",
            ", ".join(f"{m}: {statistics.median(s):.2f}" for m, s in result.trl.items()),
        )
    return shown


if __name__ == "__main__":
    main()
