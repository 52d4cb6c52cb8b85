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


def printed(result):
    console = Console(file=io.StringIO(), width=200, color_system=None, _environ={})
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
