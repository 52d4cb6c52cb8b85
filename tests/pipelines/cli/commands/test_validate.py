from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from agentrl_components.spec.crd.definition import definition
from agentrl_components.spec.crd.reference import reference
from agentrl_pipelines.cli.commands.crd import crd
from agentrl_pipelines.cli.commands.validate import validate

MANIFEST = """
apiVersion: agentrl.dev/v1alpha1
kind: AgentRLRun
metadata: {name: first-try}
spec:
  environments: [{name: rooms, builtin: babyai}]
  warmStart: {algorithm: hindsight}
  rollout: {tasks: 30, groupSize: 8}
  horizon: {phases: [{maxTurns: 3, iterations: 20}, {maxTurns: 8, iterations: 30}]}
"""


def _run(folder: Path, *arguments: str) -> tuple[int, str, str]:
    path = folder / "run.yaml"
    path.write_text(MANIFEST)
    done = CliRunner().invoke(validate, [str(path), *arguments])
    return done.exit_code, done.stdout.replace(str(path), "run.yaml"), done.stderr


def test_a_valid_manifest_is_summarised_in_one_line(tmp_path):
    assert _run(tmp_path) == (
        0,
        "run.yaml: valid\n"
        "first-try: tiny in rooms; grpo after hindsight; horizon 3 -> 8 turns; "
        "50 iterations of 30 tasks x 8 compared episodes, 12,000 episodes\n",
        "",
    )


def test_the_summary_of_a_run_that_may_end_early_says_at_most(tmp_path):
    _, out, _ = _run(tmp_path, "--set", "horizon.advance=success", "--set", "algorithm.name=ppo")
    assert "ppo after hindsight; horizon 3 -> 8 turns; at most 50 iterations of 30 tasks" in out
    assert "x 8 episodes, at most 12,000 episodes" in out


def test_every_error_is_one_line_and_the_exit_code_is_2(tmp_path):
    assert _run(tmp_path, "--set", "seed=-1", "--set", "rollout.groupSize=1") == (
        2,
        "",
        "spec.seed: -1 is too small; set it to 0 or more\n"
        "spec.rollout.groupSize: 1 is too small for grpo, whose baseline is the other "
        "episodes of the task; set it to 2 or more\n",
    )


def test_a_missing_file_is_named():
    done = CliRunner().invoke(validate, ["none.yaml"])
    assert (done.exit_code, done.stderr) == (
        2,
        "none.yaml: file not found; check the path\n",
    )


def test_the_crd_is_printed():
    done = CliRunner().invoke(crd, [])
    assert done.exit_code == 0
    assert yaml.safe_load(done.stdout) == definition()


def test_the_reference_is_printed():
    assert CliRunner().invoke(crd, ["--docs"]).stdout == reference()


def test_a_file_that_is_missing_on_this_machine_is_a_warning(tmp_path):
    terse = "environments[0].options.text=terse"
    code, out, err = _run(tmp_path, "--set", "model.source=file:///none", "--set", terse)
    assert (code, out.splitlines()[0]) == (0, "run.yaml: valid")
    assert err == "on this machine: spec.model.source: /none does not exist; check the path\n"


def test_evaluations_without_a_checkpoint_are_a_warning(tmp_path):
    code, out, err = _run(
        tmp_path, "--set", "evaluation.every=3", "--set", "update.checkpointEvery=2"
    )
    assert (code, out.splitlines()[0]) == (0, "run.yaml: valid")
    assert err.startswith("warning: spec.evaluation.every: is 3, and spec.update.checkpointEvery")


def test_a_class_that_its_module_lacks_is_a_mistake_of_builtin(tmp_path):
    set_builtin = "environments[0].builtin=agentrl_envs.task_list:NoSuch"
    assert _run(tmp_path, "--set", set_builtin) == (
        2,
        "",
        "spec.environments[0].builtin: agentrl_envs.task_list:NoSuch: agentrl_envs.task_list has "
        "no class NoSuch; check the name\n",
    )


def test_a_tiny_model_needs_an_environment_that_lists_its_words(tmp_path):
    changed = "environments[0]={name: way, builtin: maze}"
    assert _run(tmp_path, "--set", changed, "--set", "warmStart=null") == (
        2,
        "",
        "spec.model.source: is tiny, whose words are those of the environments, and "
        "vocabulary() of environment way lists none: every word would be <unk>; use a "
        "pretrained model, such as hf://Qwen/Qwen3-0.6B, or set "
        "spec.environments[0].options.text to terse\n",
    )


@pytest.mark.parametrize(
    "builtin",
    [
        "builtin: maze, options: {text: terse}",
        "builtin: gymnasium, options: {id: 'x'}",  # does not open here
    ],
)
def test_an_environment_that_lists_its_words_or_cannot_be_asked_is_valid(tmp_path, builtin):
    changed = f"environments[0]={{name: way, {builtin}}}"
    code, out, _ = _run(tmp_path, "--set", changed, "--set", "warmStart=null")
    assert (code, out.splitlines()[0]) == (0, "run.yaml: valid")


def test_the_summary_has_the_turn_limits_of_environments(tmp_path):
    """Two environments: one has the schedule's 3 and 8 turns, the other 5 in both phases."""
    other = "{name: crafting, builtin: textcraft, maxTurns: [5], options: {text: terse}}"
    both = f"environments=[{{name: rooms, builtin: babyai}}, {other}]"
    _, out, _ = _run(tmp_path, "--set", both)
    assert "horizon 3 to 5 -> 5 to 8 turns" in out
