"""Progress of an evaluation of an endpoint: a live table in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich import box
from rich.live import Live
from rich.table import Table
from rich.text import Text

from agentrl_components.evaluation.summary import category
from agentrl_components.rollout.text_rollout import Usage
from agentrl_components.trajectory.record import Trajectory
from agentrl_envs.output.console import Console
from agentrl_pipelines.cli.progress_view import Clock, PlainView, RichView, clock_time, view_for

if TYPE_CHECKING:
    from agentrl_pipelines.local.evaluation import EvaluationView


def evaluation_view_for(console: Console) -> EvaluationView:
    """The live table if `console` writes to a terminal, else plain lines."""
    live = isinstance(view_for(console), RichView)
    return LiveTable(console) if live else PlainLines(console)


class PlainLines(PlainView):
    """`PlainView` that counts episodes."""

    def episode(self, episode: Trajectory, usage: Usage, resumed: bool) -> None:
        del episode, usage, resumed
        self.advance()


@dataclass(slots=True)
class Row:
    """Counts of one category."""

    episodes: int = 0
    solved: int = 0
    turns: int = 0


class LiveTable:
    """Episodes, success and turns by category of a stage, all tokens and the time left."""

    def __init__(self, console: Console, clock: Clock = time.monotonic) -> None:
        self._clock, self._started = clock, clock()
        self._name, self._total, self._resumed = "", 0, 0
        self._usage = Usage()
        self.rows: dict[str, Row] = {}
        self._live = Live(console=console, refresh_per_second=4, get_renderable=self.table)

    def stage(self, name: str, total: int | None = None) -> None:
        self._name, self._total, self._started = name, total or 0, self._clock()
        self._resumed = 0
        self.rows.clear()  # a sweep beyond the turn limit plays the tasks again
        self._live.start()

    def episode(self, episode: Trajectory, usage: Usage, resumed: bool) -> None:
        self._resumed += resumed
        row = self.rows.setdefault(category(episode), Row())
        row.episodes += 1
        row.solved += episode.success
        row.turns += len(episode.turns)
        self._usage += usage

    def close(self) -> None:
        self._live.stop()

    def table(self) -> Table:
        """The table with the counts so far."""
        out = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption_justify="left")
        out.caption = Text(self._caption())
        out.add_column(self._name or "evaluation", overflow="fold")
        for title in ("episodes", "solved, %", "turns"):
            out.add_column(title, justify="right", overflow="fold")
        for name, row in sorted(self.rows.items()):
            share, turns = row.solved / row.episodes, row.turns / row.episodes
            out.add_row(Text(name), str(row.episodes), f"{100 * share:.1f}", f"{turns:.1f}")
        return out

    def _caption(self) -> str:
        done = sum(row.episodes for row in self.rows.values())
        elapsed = self._clock() - self._started
        of = f" of {self._total}" if self._total else ""
        left = ""
        played = done - self._resumed  # the others took no time
        if played and self._total > done:
            left = f" · about {clock_time(elapsed / played * (self._total - done))} left"
        used = self._usage
        tokens = f"{used.prompt_tokens:,} + {used.completion_tokens:,} tokens"
        return f"{done}{of} episodes · {tokens} · {clock_time(elapsed)}{left}"
