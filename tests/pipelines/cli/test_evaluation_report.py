"""What `agentrl eval` prints and writes of a result."""

import io
import json
import resource
import signal
from contextlib import contextmanager

import pytest
from heldout_results import heldout_result
from rich.console import Console

from agentrl_components.errors import StoreError
from agentrl_components.evaluation.summary import SuccessRate
from agentrl_pipelines.cli.evaluation_report import EvaluationReport, show, write


def report(**policy):
    return EvaluationReport(
        name="walk",
        model="walker",
        environments=("rooms", "crafting"),
        actions="free",
        seed=0,
        policy=heldout_result("policy", 0.8, **policy),
        random=None,
        episodes=(),
    )


def printed(result, width=200):
    console = Console(file=io.StringIO(), width=width, color_system=None, _environ={})
    show(result, console)
    return console.file.getvalue()


def test_environments_that_were_down_are_named(tmp_path):
    lacking = report(missing=("rooms", "crafting"))
    write(lacking, tmp_path)
    named = "400 tasks, without rooms and crafting, which were down"
    assert f"success is that of {named}" in printed(lacking)
    page = (tmp_path / "eval.html").read_text()
    assert "80.0 % of 400 held-out tasks solved, without rooms and crafting, which were" in page
    assert "without" not in printed(report())


def test_the_mean_score_is_in_percent_like_the_success(tmp_path):
    graded = report(score=0.25)
    (line,) = [line for line in printed(graded).splitlines() if "mean score" in line]
    assert line.split() == ["mean", "score", "25.0"]
    write(graded, tmp_path)
    assert '<th scope="row">mean score</th><td>25.0 %</td>' in (tmp_path / "eval.html").read_text()


def test_no_name_and_no_digit_is_lost_in_a_narrow_terminal():
    share = SuccessRate(success=1.0, low=0.342, high=1.0, n=80)
    both = {"categories": {"babyai/UnlockPickup": share, "babyai/GoTo": share}}
    found = report(**both).model_copy(update={"random": heldout_result("random", 0.5, **both)})
    text = printed(found, 40)
    assert "…" not in text
    table = text[text.index("held-out") : text.index("95 % intervals")]
    words = table.split()
    for word in ("babyai/GoTo", "all", "mean", "score", "well-formed", "replies"):
        assert word in words
    assert words.count("[34.2,") == 4
    assert "babyai/Unl" in table  # continued in the next line


def test_the_figure_of_an_earlier_sweep_is_deleted(tmp_path):
    share = SuccessRate(success=0.5, low=0.4, high=0.6, n=400)
    write(report(turn_sweep={2: share}), tmp_path)
    assert {path.name for path in tmp_path.glob("scaling.*")} == {"scaling.json", "scaling.png"}
    write(report(), tmp_path)
    assert not list(tmp_path.glob("scaling.*"))


@contextmanager
def largest_file(size):
    """Files that this process writes may have `size` bytes, as on a disk that becomes full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # else it ends the process
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_result_that_cannot_be_written_leaves_the_earlier_one_whole(tmp_path):
    share = SuccessRate(success=0.5, low=0.4, high=0.6, n=400)
    write(report(turn_sweep={2: share}), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(before) == 4
    with largest_file(100), pytest.raises(StoreError, match=r"eval\.json: in file://"):
        write(report(), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert json.loads(before["eval.json"])["model"] == "walker"
