"""`agentrl run` prints warnings, and shows the results of a run that an alarm stopped."""

from pathlib import Path

from click.testing import CliRunner
from corridor_run import HEADER

from agentrl_pipelines.cli.main import main

MANIFEST = (
    HEADER
    + """\
  horizon:
    phases: [{maxTurns: 4, iterations: 5}]
    alarms: [{action: stop, window: 2, rewardStdBelow: 1}]
  rollout: {tasks: 2, groupSize: 2, actions: admissible, maxTokensPerTurn: 4}
  evaluation: {tasks: 4, every: 0, randomPolicy: false}
  tracking: {episodes: 0}
"""
)


def test_a_run_that_an_alarm_stopped_prints_its_summary_before_the_error(tmp_path: Path):
    """The evaluation after the last iteration, here the second, stands for that after training."""
    file, root = tmp_path / "run.yaml", tmp_path / "root"
    file.write_text(MANIFEST)
    result = CliRunner().invoke(main, ["run", str(file), "--root", str(root)])
    assert result.exit_code == 1
    assert result.stderr.startswith("error: stopped after iteration 2: reward deviation")
    shown = " ".join(result.stdout.split())
    assert "random policy before after iteration 2" in shown
    assert "of 4 held-out tasks" in shown
    assert "alarm at iteration 2:" in shown
    assert str(root / "report.html") in shown
    assert "best and last checkpoint file://" in shown
    page = (root / "report.html").read_text(encoding="utf-8")
    assert "after iteration 2" in page
    assert "after training" not in page


def test_warnings_about_the_manifest_are_printed_before_the_run_starts(tmp_path: Path):
    file, missing = tmp_path / "run.yaml", tmp_path / "file"
    file.write_text(MANIFEST)
    missing.write_text("")  # a file in place of the folder: nothing starts
    fields = ("--set", "evaluation.every=3", "--set", "update.checkpointEvery=2")
    result = CliRunner().invoke(main, ["run", str(file), "--root", str(missing / "x"), *fields])
    assert result.exit_code == 1
    assert result.stderr.startswith(
        "warning: spec.evaluation.every: is 3, and spec.update.checkpointEvery is 2: there is no "
        "checkpoint of the weights that are evaluated after iteration 3,"
    )


def test_a_field_without_effect_on_this_machine_is_printed_before_the_run_starts(tmp_path: Path):
    file, missing = tmp_path / "run.yaml", tmp_path / "file"
    file.write_text(MANIFEST)
    missing.write_text("")
    timeout = ("--set", "environments[0].timeoutS=5")
    command = ["run", str(file), "--root", str(missing / "x"), *timeout]
    result = CliRunner(env={"MLFLOW_TRACKING_URI": "http://mlflow:5000"}).invoke(main, command)
    first, second, *_ = result.stderr.splitlines()
    assert first.startswith("warning: spec.environments[0].timeoutS: has no effect on this machine")
    assert second.startswith("warning: spec.tracking.uri: is not set: the run is recorded in its")
