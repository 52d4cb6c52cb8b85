"""Our update beside TRL's: trained tokens a second where episodes differ much in length.

    python benchmarks/update.py --out benchmarks/results/update.json
    python benchmarks/update.py --quick

Both take optimizer steps on the same episodes: lengths are the quantiles of a lognormal
distribution, the longest `--skew` times the median, in turns of an agent's reply and an
observation. One step of GRPO over all episodes is timed, forward, backward and AdamW: on our side
`Learner.update`, packs without padding and the language-model head only where a sampled token is
predicted, on worker processes of one thread each; on TRL's `GRPOTrainer.training_step` over
micro-batches padded to the longest episode, with as many threads. TRL's micro-batch is a setting
of its own, so several are tried and its best counts.

Columns: `tok/s` tokens of the agent's own (those that carry loss) in a second, the median of the
repeats.
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
import models
import numpy as np
import peer
import workers
from rich.console import Console
from rich.table import Table

from agentrl_components.trajectory.record import Ending, Trajectory, Turn

PROMPT, REPLY, OBSERVATION = 24, 24, 20
"""Tokens of an episode's opening, of each reply and of each observation."""
GROUP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One model. Seconds of each repeat."""

    model: str
    parameters: int
    lengths: tuple[int, ...]
    """Tokens of each episode, prompt included."""
    trained: int
    """Tokens that carry loss."""
    ours: tuple[float, ...]
    trl: dict[int, tuple[float, ...]]
    """By episodes in a micro-batch."""

    def ours_rate(self) -> float:
        """Trained tokens a second."""
        return self.trained / statistics.median(self.ours)

    def trl_rate(self) -> float | None:
        """The same, of the best micro-batch."""
        if not self.trl:
            return None
        return self.trained / min(map(statistics.median, self.trl.values()))

    def ratio(self) -> float | None:
        """How many times as fast we are."""
        best = self.trl_rate()
        return None if best is None else self.ours_rate() / best


@click.command()
@click.option("--sizes", default=",".join(models.SIZES), show_default=True)
@click.option("--episodes", default=64, show_default=True)
@click.option("--median", default=160, show_default=True, help="Median length in tokens.")
@click.option("--skew", default=8.0, show_default=True, help="Longest over median.")
@click.option("--repeats", default=3, show_default=True)
@click.option("--cores", default=2, show_default=True, help="Threads of TRL, workers of ours.")
@click.option(
    "--micro", default="8,64", show_default=True, help="TRL's micro-batches, in episodes."
)
@click.option("--pack-tokens", default=2048, show_default=True, help="Our update.microBatchTokens.")
@click.option("--quick", is_flag=True, help="Half as long and as many episodes, one repeat.")
@click.option("--no-peer", is_flag=True, help="Our side alone.")
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
    """Measure, print a table, write JSON."""
    if not no_peer:
        peer.required(peer_python)
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
            algorithm = {"importanceSampling": {"mode": "off"}}  # TRL has none here either
            with (
                workers.opened(folder, cores, update=update, algorithm=algorithm) as ours,
                peer.perhaps(not no_peer, peer_python, folder, cores) as trl,
            ):
                if trl is not None:
                    versions = trl.ask(do="versions")
                seconds, others = compared(ours, trl, masks, micros, repeats)
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
        beside = "" if ratio is None else f", {ratio:.1f} times TRL"
        click.echo(f"{name}: ours {result.ours_rate():,.0f} tok/s{beside}")
    Console().print(table(results))
    written = {
        "machine": peer.machine(),
        "peer": versions,
        "results": [asdict(result) | {"ratio": result.ratio()} for result in results],
    }
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    Path(out).write_text(json.dumps(written, indent=1) + "\n")
    click.echo(f"written: {out}")


def compared(
    ours: workers.Workers,
    trl: peer.Peer | None,
    masks: Sequence[np.ndarray[Any, np.dtype[np.bool_]]],
    micros: Sequence[int],
    repeats: int,
) -> tuple[tuple[float, ...], dict[int, tuple[float, ...]]]:
    """Turn about; the first turn of each is not counted."""
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
    """`count` lengths: quantiles of a lognormal distribution whose largest is `skew` times the
    median, dealt so that no group is all short or all long."""
    normal = NormalDist()
    deviations = [normal.inv_cdf((i + 0.5) / count) for i in range(count)]
    scale = math.log(skew) / deviations[-1]
    lengths = [round(median * math.exp(scale * deviation)) for deviation in deviations]
    order = np.random.default_rng(0).permutation(count)
    return [max(PROMPT + REPLY, lengths[i]) for i in order]


def mask(length: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which tokens of an episode of `length` tokens the agent sampled: replies and observations in
    turn; the last token is the agent's."""
    place = np.arange(length) - PROMPT
    own = (place >= 0) & (place % (REPLY + OBSERVATION) < REPLY)
    own[-1] = True
    return own


def episode(number: int, own: np.ndarray[Any, np.dtype[np.bool_]]) -> Trajectory:
    """An episode of random tokens; every other one of a group succeeded."""
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
    """As a person reads it."""
    first = results[0]
    shown = Table(
        title=f"one step of GRPO on {len(first.lengths)} episodes of {min(first.lengths)} to "
        f"{max(first.lengths)} tokens, median {statistics.median(first.lengths):g}"
    )
    for column in ("model", "ours tok/s", "TRL tok/s", "ratio", "ours s", "TRL s by micro-batch"):
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
