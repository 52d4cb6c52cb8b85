"""Progress for people: one live view in a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
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

from agentrl_components.run.progress import Shown, View

Clock = Callable[[], float]

NUMBERS_WIDTH = 74
"""Columns of a live line that are not the bar."""

EVERY_ITERATIONS = 10
EVERY_SECONDS = 15.0
"""How often a plain view speaks, whichever comes first."""


def view_for(console: Console) -> View:
    """The view that suits where `console` writes to."""
    live = console.is_terminal and not console.is_dumb_terminal
    return RichView(console) if live else PlainView(console)


class RichView:
    """A line that stays for every stage that is done, and a live bar for the one under way."""

    def __init__(self, console: Console, clock: Clock = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._began = clock()
        self._name = ""
        self._took: dict[str, float] = {}
        self._task: TaskID | None = None
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=min(max(console.width - NUMBERS_WIDTH, 6), 40)),
            _Told(),
            console=console,
            transient=True,
            refresh_per_second=8,
        )

    def stage(self, name: str, total: int | None = None) -> None:
        self._finish()
        self._name, self._began = name, self._clock()
        self._task = self._progress.add_task(escape(name), total=total, told="")
        self._progress.start()

    def advance(self, done: int = 1) -> None:
        if self._task is not None:
            self._progress.advance(self._task, done)

    def iteration(self, shown: Shown) -> None:
        if self._task is None:
            self.stage("train")
        assert self._task is not None
        self._progress.update(
            self._task,
            description=f"phase {shown.phase + 1}/{shown.phases} · {shown.max_turns} turns",
            completed=shown.iteration,
            total=shown.iterations,
            told=_numbers(shown),
            refresh=True,
        )

    def note(self, text: str) -> None:
        self._console.print(Text(f"  · {text}"))

    def close(self) -> None:
        self._finish(closing=True)
        self._progress.stop()

    def _finish(self, *, closing: bool = False) -> None:
        """Turn the live bar into a line that stays, unless the stage will come back: training gives
        way to an evaluation now and then."""
        if self._task is None:
            return
        task = self._progress.tasks[-1]
        cut = task.total is not None and 0 < task.completed < task.total
        self._progress.remove_task(self._task)
        self._task = None
        self._took[self._name] = self._took.get(self._name, 0.0) + self._clock() - self._began
        if closing or not cut:
            how = Text("  ○ ", "yellow") if cut else Text("  ✓ ", "green")
            took = clock_time(self._took.pop(self._name))
            self._console.print(how + Text(f"{self._name:<28}") + Text(f"{took:>8}", "dim"))


class _Told(ProgressColumn):
    """What is known of the stage: numbers of training, or how much of it is done."""

    def render(self, task: Task) -> Text:
        if task.fields["told"]:
            return Text(task.fields["told"], no_wrap=True, overflow="ellipsis")
        if task.total is None:
            return Text(clock_time(task.elapsed or 0.0), "dim")
        return Text(f"{task.completed:,.0f}/{task.total:,.0f}", "dim")


class PlainView:
    """A line when a stage begins, and one every few iterations or seconds while it lasts. Every
    line begins with the time since the first."""

    def __init__(self, console: Console, clock: Clock = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._began = self._spoke = clock()
        self._name = ""
        self._done = 0
        self._total: int | None = None
        self._shown: Shown | None = None

    def stage(self, name: str, total: int | None = None) -> None:
        self._name, self._done, self._total, self._shown = name, 0, total, None
        self._say(name)

    def advance(self, done: int = 1) -> None:
        self._done += done
        if self._clock() - self._spoke >= EVERY_SECONDS:
            of = "" if self._total is None else f" of {self._total:,}"
            self._say(f"{self._name}: {self._done:,}{of}")

    def iteration(self, shown: Shown) -> None:
        if (
            self._shown is None
            or shown.phase != self._shown.phase
            or shown.iteration == shown.iterations
            or shown.iteration - self._shown.iteration >= EVERY_ITERATIONS
            or self._clock() - self._spoke >= EVERY_SECONDS
        ):
            self._shown = shown
            self._say(
                f"{self._name or 'train'}: phase {shown.phase + 1}/{shown.phases}, "
                f"{shown.max_turns} turns, iteration {_numbers(shown)}"
            )

    def note(self, text: str) -> None:
        self._say(f"· {text}")

    def close(self) -> None:
        pass

    def _say(self, text: str) -> None:
        self._spoke = self._clock()
        since = clock_time(self._spoke - self._began)
        self._console.print(Text(f"{since:>8}  {text}"), soft_wrap=True)


def clock_time(seconds: float) -> str:
    """83.4 as `1:23`, an hour and more as `1:02:03`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _numbers(shown: Shown) -> str:
    left = "" if shown.seconds_left is None else f" · {clock_time(shown.seconds_left)} left"
    return (
        f"{shown.iteration}/{shown.iterations} · success {shown.success * 100:.0f} %"
        f" · {_short(shown.tokens_per_s)} tok/s{left}"
    )


def _short(number: float) -> str:
    """15234 as `15.2k`."""
    return f"{number:.0f}" if number < 1000 else f"{number / 1000:.1f}k"
