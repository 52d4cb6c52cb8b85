"""Progress display: a live view in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
)
from rich.text import Text

from agentrl_components.run.progress import IterationProgress, ProgressView
from agentrl_envs.output.console import Console

Clock = Callable[[], float]

NUMBERS_WIDTH = 87
"""Columns of the live line besides the bar."""

EVERY_ITERATIONS = 10
EVERY_SECONDS = 15.0
"""A plain view prints at one of these intervals, whichever is reached first."""


def view_for(console: Console) -> ProgressView:
    """The live view if `console` writes to a terminal, else the plain view.

    `Console.is_terminal` alone is not enough: variables such as FORCE_COLOR, which CI systems set,
    make it true for a log file."""
    live = console.is_terminal and console.file.isatty() and not console.is_dumb_terminal
    return RichView(console) if live else PlainView(console)


class RichView:
    """A permanent line for every completed stage, and a live progress bar for the current one."""

    def __init__(self, console: Console, clock: Clock = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._started = clock()
        self._name = ""
        self._elapsed: dict[str, float] = {}
        self._task: TaskID | None = None
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=min(max(console.width - NUMBERS_WIDTH, 6), 40)),
            _StageColumn(),
            console=console,
            transient=True,
            refresh_per_second=8,
        )

    def stage(self, name: str, total: int | None = None) -> None:
        self._finish()
        self._name, self._started = name, self._clock()
        self._task = self._progress.add_task(escape(name), total=total, numbers="")
        self._progress.start()

    def advance(self, done: int = 1) -> None:
        if self._task is not None:
            self._progress.advance(self._task, done)

    def iteration(self, shown: IterationProgress) -> None:
        if self._task is None:
            self.stage("train")
        assert self._task is not None
        self._progress.update(
            self._task,
            description=f"phase {shown.phase + 1}/{shown.phases} · {shown.turns} turns",
            completed=shown.iteration,
            total=shown.iterations,
            numbers=_numbers(shown),
            refresh=True,
        )

    def note(self, text: str) -> None:
        self._console.print(Text(f"  · {text}"))

    def close(self) -> None:
        self._finish(closing=True)
        self._progress.stop()

    def _finish(self, *, closing: bool = False) -> None:
        """Replace the live bar by a permanent line, unless the stage will be continued: training is
        interrupted by evaluations."""
        if self._task is None:
            return
        task = self._progress.tasks[-1]
        incomplete = task.total is not None and 0 < task.completed < task.total
        self._progress.remove_task(self._task)
        self._task = None
        elapsed = self._elapsed.get(self._name, 0.0) + self._clock() - self._started
        self._elapsed[self._name] = elapsed
        if closing or not incomplete:
            mark = Text("  ○ ", "yellow") if incomplete else Text("  ✓ ", "green")
            duration = clock_time(self._elapsed.pop(self._name))
            self._console.print(mark + Text(f"{self._name:<28}") + Text(f"{duration:>8}", "dim"))


class _StageColumn(ProgressColumn):
    """Training numbers, or completed/total, or the elapsed time."""

    def render(self, task: Task) -> Text:
        if task.fields["numbers"]:
            return Text(task.fields["numbers"], no_wrap=True, overflow="ellipsis")
        if task.total is None:
            return Text(clock_time(task.elapsed or 0.0), "dim")
        return Text(f"{task.completed:,.0f}/{task.total:,.0f}", "dim")


class PlainView:
    """One line at the start of a stage and one at regular intervals. Every line starts with the
    time elapsed since the first."""

    def __init__(self, console: Console, clock: Clock = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._started = self._printed_at = clock()
        self._name = ""
        self._done = 0
        self._total: int | None = None
        self._shown: IterationProgress | None = None
        self._training = ""
        """The stage of the last iteration."""

    def stage(self, name: str, total: int | None = None) -> None:
        resumed = self._shown is not None and name == self._training
        self._name, self._done, self._total = name, 0, total
        if not resumed:  # training is interrupted by evaluations, and then goes on
            self._print(name)

    def advance(self, done: int = 1) -> None:
        self._done += done
        if self._clock() - self._printed_at >= EVERY_SECONDS:
            of = "" if self._total is None else f" of {self._total:,}"
            self._print(f"{self._name}: {self._done:,}{of}")

    def iteration(self, shown: IterationProgress) -> None:
        if (
            self._shown is None
            or shown.phase != self._shown.phase
            or shown.iteration == shown.iterations
            or shown.iteration - self._shown.iteration >= EVERY_ITERATIONS
            or self._clock() - self._printed_at >= EVERY_SECONDS
        ):
            self._shown, self._training = shown, self._name or "train"
            self._print(
                f"{self._training}: phase {shown.phase + 1}/{shown.phases}, "
                f"{shown.turns} turns, iteration {_numbers(shown)}"
            )

    def note(self, text: str) -> None:
        self._print(f"· {text}")

    def close(self) -> None:
        pass

    def _print(self, text: str) -> None:
        self._printed_at = self._clock()
        elapsed = clock_time(self._printed_at - self._started)
        self._console.print(Text(f"{elapsed:>8}  {text}"), soft_wrap=True)


def clock_time(seconds: float) -> str:
    """Seconds as `1:23`, or `1:02:03` from an hour on."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _numbers(shown: IterationProgress) -> str:
    left = "" if shown.seconds_left is None else f" · {clock_time(shown.seconds_left)} left"
    score = "" if shown.score is None else f" · score {shown.score * 100:.0f} %"
    return (
        f"{shown.iteration}/{shown.iterations} · success {shown.success * 100:.0f} %{score}"
        f" · {_short(shown.tokens_per_s)} tok/s{left}"
    )


def _short(number: float) -> str:
    """15234 as `15.2k`."""
    return f"{number:.0f}" if number < 1000 else f"{number / 1000:.1f}k"
