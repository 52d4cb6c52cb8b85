import io
import os

import pytest
from rich.console import Console

from agentrl_components.run.progress import IterationProgress, SilentProgressView
from agentrl_envs.output.fail_safe import FailSafeStream
from agentrl_pipelines.cli.progress_view import (
    PlainView,
    RichView,
    clock_time,
    view_for,
)


class Clock:
    """A clock that tests advance."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def console(terminal):
    return Console(
        file=Terminal() if terminal else io.StringIO(),
        force_terminal=terminal,
        width=80,
        color_system=None,
        _environ={},
    )


def written(where):
    return where.file.getvalue().splitlines()


def shown(iteration, phase=0, turns=3, score=None):
    return IterationProgress(
        iteration=iteration,
        iterations=40,
        phase=phase,
        phases=2,
        turns=str(turns),
        success=0.614,
        score=score,
        tokens_per_s=15234.0,
        seconds_left=151.0,
    )


def plain():
    where, clock = console(False), Clock()
    return PlainView(where, clock), where, clock


def test_output_to_a_file_uses_the_plain_view_even_with_force_color():
    where = Console(file=io.StringIO(), _environ={"FORCE_COLOR": "1", "TERM": "xterm"})
    assert where.is_terminal
    assert isinstance(view_for(where), PlainView)


def test_the_plain_view_does_not_announce_training_again_after_each_evaluation():
    view, where, _ = plain()
    view.stage("train", 40)
    for iteration in range(1, 10):
        view.iteration(shown(iteration))
        view.stage(f"evaluate: iteration-{iteration}")
        view.stage("train", 40)
    lines = [line.split("  ", 3)[-1] for line in written(where)]
    assert sum("evaluate" in line for line in lines) == 9
    assert len(lines) == 2 + 9  # train, the first iteration, and the evaluations


def test_a_terminal_uses_the_live_view_and_a_pipe_the_plain_view():
    assert isinstance(view_for(console(True)), RichView)
    assert isinstance(view_for(console(False)), PlainView)


def test_the_plain_view_prints_each_stage_once_with_the_elapsed_time():
    view, where, clock = plain()
    view.stage("provision", 1)
    view.advance()
    clock.now += 83
    view.stage("random policy")
    assert written(where) == ["    0:00  provision", "    1:23  random policy"]


def test_the_plain_view_prints_every_tenth_the_last_and_a_phases_first_iteration():
    view, where, _ = plain()
    view.stage("train", 40)
    for iteration in range(1, 41):
        late = iteration > 25
        view.iteration(shown(iteration, phase=int(late), turns=5 if late else 3))
    iterations = [line.split("iteration ")[1].split("/")[0] for line in written(where)[1:]]
    assert iterations == ["1", "11", "21", "26", "36", "40"]
    assert written(where)[1] == (
        "    0:00  train: phase 1/2, 3 turns, iteration 1/40 · success 61 % · 15.2k tok/s"
        " · 2:31 left"
    )


def test_the_plain_view_prints_at_least_every_fifteen_seconds():
    view, where, clock = plain()
    view.stage("warm start: imitate", 200)
    view.advance(20)
    clock.now += 15
    view.advance()
    view.advance()
    assert written(where)[1:] == ["    0:15  warm start: imitate: 21 of 200"]


def test_notes_are_printed_without_interpreting_markup():
    view, where, _ = plain()
    view.note("alarm: [bold]entropy[/bold] below 0.1")
    assert written(where) == ["    0:00  · alarm: [bold]entropy[/bold] below 0.1"]


def test_the_live_view_shows_phase_horizon_iteration_success_speed_and_time_left():
    where = console(True)
    view = RichView(where, Clock())
    view.stage("train", 40)
    view.iteration(shown(12, phase=1, turns=5))
    view.close()
    text = where.file.getvalue()
    assert "phase 2/2 · 5 turns" in text
    assert "12/40 · success 61 % · 15.2k tok/s · 2:31 left" in text


def test_a_completed_stage_leaves_a_line_with_its_duration():
    where, clock = console(True), Clock()
    view = RichView(where, clock)
    view.stage("warm start: imitate", 2)
    view.advance(2)
    clock.now += 21.5
    view.stage("train", 40)
    view.close()
    assert any("✓ warm start: imitate" in line and "0:21" in line for line in written(where))


def test_training_interrupted_by_an_evaluation_leaves_one_line():
    where, clock = console(True), Clock()
    view = RichView(where, clock)
    for iteration, name in ((20, "evaluate: iteration-000020"), (40, "evaluate: after")):
        view.stage("train", 40)
        view.iteration(shown(iteration))
        clock.now += 30
        view.stage(name)
    view.close()
    (line,) = [line for line in written(where) if "✓ train" in line]
    assert "1:00" in line


def test_an_incomplete_stage_has_no_check_mark():
    where = console(True)
    view = RichView(where, Clock())
    view.stage("train", 40)
    view.iteration(shown(12))
    view.close()
    view.close()
    text = where.file.getvalue()
    assert "○ train" in text
    assert "✓" not in text


def test_times_are_printed_as_minutes_and_seconds():
    assert [clock_time(s) for s in (0.4, 83.4, 3723)] == ["0:00", "1:23", "1:02:03"]


def test_a_silent_view_records_its_calls():
    view = SilentProgressView()
    view.stage("train", 3)
    view.advance()
    view.note("the horizon grows")
    view.close()
    assert (view.stages, view.done, view.notes, view.closed) == (
        ["train"],
        1,
        ["the horizon grows"],
        True,
    )


def test_a_score_that_differs_from_success_is_shown_beside_it():
    view, where, _ = plain()
    view.iteration(shown(1))
    view.iteration(shown(40, score=0.705))
    first, last = written(where)
    assert "success 61 % · 15.2k tok/s" in first
    assert "success 61 % · score 70 % · 15.2k tok/s" in last


def a_broken_pipe():
    """The writing end of a pipe that nobody reads any more."""
    reading, writing = os.pipe()
    os.close(reading)
    return open(writing, "w", encoding="utf-8")


def a_full_disk():
    return open("/dev/full", "w", encoding="utf-8")


@pytest.mark.parametrize("opened", [a_broken_pipe, a_full_disk])
@pytest.mark.parametrize("terminal", [True, False])
def test_a_view_whose_output_fails_neither_raises_nor_ends_the_process(opened, terminal):
    stream = opened()
    where = Console(file=FailSafeStream(stream), force_terminal=terminal, _environ={})
    view = RichView(where) if terminal else PlainView(where)
    view.stage("train", 40)
    view.iteration(shown(1))
    view.advance()
    view.note("the horizon grows")
    view.stage("evaluate: after")
    view.close()
    with pytest.raises(OSError, match=r"Broken pipe|No space left"):  # it failed, indeed
        stream.flush()
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), stream.fileno())  # so that it can be closed
    stream.close()


def test_a_view_shows_again_once_its_output_works_again(tmp_path):
    with open(tmp_path / "log", "w", encoding="utf-8") as stream:
        works = os.dup(stream.fileno())
        view = PlainView(Console(file=FailSafeStream(stream), width=80, _environ={}), Clock())
        with a_full_disk() as full:
            os.dup2(full.fileno(), stream.fileno())
        view.note("while the disk is full")
        os.dup2(works, stream.fileno())
        os.close(works)
        view.note("and after")
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[-1] == "    0:00  · and after"


def test_text_that_the_output_cannot_encode_is_escaped():
    """As a path with bytes that are not UTF-8, or any letter where LANG is C."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    view = PlainView(Console(file=FailSafeStream(stream), width=80, _environ={}), Clock())
    view.note("caf\u00e9 \udcff")
    assert stream.buffer.getvalue() == b"    0:00  \\xb7 caf\\xe9 \\udcff\n"
