"""What `agentrl eval` prints and writes of a result."""

import io

from heldout_results import heldout_result
from rich.console import Console

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


def printed(result, folder):
    console = Console(file=io.StringIO(), width=200, color_system=None, _environ={})
    show(result, folder, console)
    return console.file.getvalue()


def test_environments_that_were_down_are_named(tmp_path):
    lacking = report(missing=("rooms", "crafting"))
    write(lacking, tmp_path)
    named = "400 tasks, without rooms and crafting, which were down"
    assert f"success is that of {named}" in printed(lacking, tmp_path)
    page = (tmp_path / "eval.html").read_text()
    assert "80.0 % of 400 held-out tasks solved, without rooms and crafting, which were" in page
    assert "without" not in printed(report(), tmp_path)
