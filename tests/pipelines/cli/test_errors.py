"""Errors of the user are reported in one line that names the cause, and nothing is started."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from click.testing import CliRunner, Result
from corridor_run import HEADER
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from agentrl_components.errors import StoreError
from agentrl_components.spec import parse
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_envs.env import Observation, Step
from agentrl_envs.environments.corridor import CorridorEnvironment, CorridorTasks
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.run import running
from agentrl_pipelines.cli.main import main
from agentrl_pipelines.local.run_folder import store_errors
from agentrl_pipelines.local.signals import INTERRUPTED, TO_CONTINUE

MANIFEST = (
    HEADER
    + """\
  horizon: {phases: [{maxTurns: 4, iterations: 2}]}
  rollout: {tasks: 2, groupSize: 2, actions: admissible, maxTokensPerTurn: 4}
  evaluation: {tasks: 4}
"""
)


def invoke(folder: Path, *options: str, manifest: str = MANIFEST, command: str = "run") -> Result:
    file = folder / "run.yaml"
    file.write_text(manifest)
    place = ("--root", str(folder / "root")) if command == "run" else ("--out", str(folder / "out"))
    return CliRunner().invoke(main, [command, str(file), *place, *options])


def nothing_started(folder: Path) -> bool:
    """Whether no file was written except the manifest."""
    return not [path for path in folder.rglob("*") if path.is_file() and path.name != "run.yaml"]


def test_all_errors_of_a_manifest_are_reported_at_once(tmp_path):
    wrong = MANIFEST.replace("groupSize: 2", "groupSize: -2, colour: red")
    result = invoke(tmp_path, "--set", "evaluation.tasks=-1", manifest=wrong)
    assert result.exit_code == 2
    errors = result.stderr.splitlines()
    for field in ("spec.rollout.groupSize", "spec.rollout.colour", "spec.evaluation.tasks"):
        assert len([line for line in errors if line.startswith(field + ":")]) == 1
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize("command", ["run", "eval", "validate"])
def test_a_missing_file_is_named(tmp_path, command):
    result = CliRunner().invoke(main, [command, str(tmp_path / "none.yaml")])
    assert result.exit_code == 2
    assert "none.yaml" in result.stderr
    assert "Traceback" not in result.output


def test_an_unknown_environment_option_is_named(tmp_path):
    result = invoke(tmp_path, "--set", "environments[0].options={turnz: 3}")
    assert result.exit_code == 2
    assert "turnz" in result.stderr
    assert "spec.environments[0]" in result.stderr
    assert nothing_started(tmp_path)


def test_an_unreachable_environment_is_named(tmp_path):
    url = "http://127.0.0.1:9"  # the discard port: nothing listens
    wrong = MANIFEST.replace("builtin: corridor", f"url: '{url}', timeoutS: 1")
    result = invoke(tmp_path, manifest=wrong)
    assert (result.exit_code, url in result.stderr) == (1, True)
    assert "Traceback" not in result.output
    assert nothing_started(tmp_path)


class OutOfRangeReward(CorridorEnvironment):
    """Returns rewards above 1."""

    def step(self, action: str) -> Step:
        played = super().step(action)
        return Step(
            observation=played.observation,
            reward=7.0,
            terminated=played.terminated,
            truncated=played.truncated,
            wellformed=played.wellformed,
            success=played.success,
            raw_score=played.raw_score,
        )


class OutOfRangeRewardTasks(CorridorTasks):
    def environment(self) -> OutOfRangeReward:
        return OutOfRangeReward()


def test_an_environment_that_violates_the_contract_is_named(tmp_path):
    tasks = OutOfRangeRewardTasks()
    with running(create_app(tasks, ThreadExecutor(tasks), ServerOptions())) as url:
        wrong = MANIFEST.replace("builtin: corridor", f"url: '{url}'")
        result = invoke(tmp_path, manifest=wrong)
    assert result.exit_code == 1
    assert "reward is 7.0; the contract requires it" in result.stderr
    assert "Traceback" not in result.output
    assert nothing_started(tmp_path)


class EscapesInReward(OutOfRangeReward):
    """Its error message, which a run prints, fills the clipboard."""

    def step(self, action: str) -> Step:
        raise ValueError("\x1b]52;c;ZXZpbA==\x07")


class EscapesInRewardTasks(CorridorTasks):
    def environment(self) -> EscapesInReward:
        return EscapesInReward()


def test_errors_of_a_server_are_printed_without_control_characters(tmp_path):
    """Regression: `agentrl run` and `agentrl envs check` wrote its escape sequences to the
    terminal."""
    tasks = EscapesInRewardTasks()
    with running(create_app(tasks, ThreadExecutor(tasks), ServerOptions())) as url:
        wrong = MANIFEST.replace("builtin: corridor", f"url: '{url}'")
        result = invoke(tmp_path, manifest=wrong)
        checked = CliRunner().invoke(main, ["envs", "check", "corridor", "--url", url], color=True)
    assert (result.exit_code, checked.exit_code) == (1, 1)
    for printed in (result.output, checked.output):
        assert "\x1b]52" not in printed
        assert "]52;c;ZXZpbA==" in printed


class NoAdmissibleActions(CorridorEnvironment):
    """Its observations list no admissible actions."""

    def reset(self, task) -> Observation:
        return Observation(text=super().reset(task).text)


class NoAdmissibleActionsTasks(CorridorTasks):
    def environment(self) -> NoAdmissibleActions:
        return NoAdmissibleActions()


def test_admissible_decoding_requires_listed_actions(tmp_path):
    tasks = NoAdmissibleActionsTasks()
    with running(create_app(tasks, ThreadExecutor(tasks), ServerOptions())) as url:
        wrong = MANIFEST.replace("builtin: corridor", f"url: '{url}'")
        result = invoke(tmp_path, manifest=wrong)
    assert result.exit_code == 2
    assert result.stderr.startswith("spec.rollout.actions: spec.environments[0] (corridor) does")
    assert nothing_started(tmp_path)


def test_a_run_can_use_an_environment_behind_a_url(tmp_path):
    tasks = CorridorTasks()
    with running(create_app(tasks, ThreadExecutor(tasks), ServerOptions())) as url:
        right = MANIFEST.replace("builtin: corridor", f"url: '{url}'")
        result = invoke(tmp_path, "--set", "evaluation.every=1", manifest=right, command="eval")
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "out" / "eval.json").read_text())
    assert found["policy"]["n"] == 4
    assert found["random"]["n"] == 4


@pytest.fixture
def templateless(tmp_path) -> Path:
    """A model folder whose tokenizer has no chat template."""
    from agentrl_components.model.sources import make_tiny
    from agentrl_components.spec import Model

    folder = make_tiny(
        Model.model_validate(yaml.safe_load(MANIFEST)["spec"]["model"]),
        CorridorTasks().vocabulary(),
        0,
        tmp_path / "model",
    )
    words = Tokenizer(WordLevel(vocab={"<unk>": 0, "left": 1}, unk_token="<unk>"))
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>").save_pretrained(folder)
    for name in ("chat_template.jinja",):
        (folder / name).unlink(missing_ok=True)
    return folder


def test_a_tokenizer_without_a_chat_template_is_named(tmp_path, templateless):
    place = tmp_path / "here"
    place.mkdir()
    result = invoke(place, "--set", f"model.source={templateless.as_uri()}")
    assert result.exit_code == 2
    assert f"tokenizer of {templateless} has no chat template" in result.stderr
    assert nothing_started(place)


def test_a_missing_model_is_named(tmp_path):
    result = invoke(tmp_path, "--set", "model.source=file:///nowhere/at/all")
    assert result.exit_code == 2
    assert "file:///nowhere/at/all: no config.json there" in result.stderr
    assert nothing_started(tmp_path)


@pytest.mark.parametrize(
    ("command", "module", "extra"),
    [
        ("submit run.yaml", "kubernetes", "pipelines"),
        ("status one", "kubernetes", "pipelines"),
        ("logs one", "urllib3", "pipelines"),
        ("run run.yaml", "torch", "train"),
    ],
)
def test_a_command_whose_packages_are_missing_names_their_extra(tmp_path, command, module, extra):
    (tmp_path / "run.yaml").write_text(MANIFEST)
    code = (
        f"import sys; sys.modules[{module!r}] = None; sys.argv[1:] = {command.split()!r}; "
        "from agentrl_pipelines.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"error: {module} is not installed; install the extra `{extra}` "
        f"(`pip install '.[{extra}]'` in a checkout of AgentRL)"
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["status one", "logs one"])
def test_commands_for_a_cluster_need_no_training_stack(tmp_path, command):
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['numpy', 'torch', 'mlflow', 'minio'])); "
        f"sys.argv[1:] = {command.split()!r}; "
        "from agentrl_pipelines.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"KUBECONFIG": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: kubeconfig: ")


@pytest.mark.parametrize("command", ["report", "metrics"])
def test_a_folder_without_a_run_is_named(tmp_path, command):
    result = CliRunner().invoke(main, [command, "--root", str(tmp_path / "none")])
    assert result.exit_code == 2
    assert f"--root: {tmp_path / 'none'}" in result.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_named(tmp_path):
    result = invoke(tmp_path, "--set", "compute.device=cuda")
    assert result.exit_code == 2
    assert "spec.compute.device: is cuda, but torch finds no NVIDIA GPU" in result.stderr
    assert "Traceback" not in result.output


def test_a_report_that_cannot_be_written_names_the_path(tmp_path):
    taken = tmp_path / "taken"
    taken.touch()
    message = r"taken.*: Not a directory; give a folder"
    with pytest.raises(StoreError, match=message), store_errors(taken):
        (taken / "report.html").write_text("")


def test_a_report_that_cannot_be_written_is_printed(tmp_path):
    run = parse(yaml.safe_load(MANIFEST))
    DirectoryStore(tmp_path / "store").put(keys.RUN, run.model_dump_json(by_alias=True).encode())
    (tmp_path / "curve.png").mkdir()
    result = CliRunner().invoke(main, ["report", "--root", str(tmp_path)])
    assert result.exit_code == 1
    assert "Nothing has been evaluated yet." in result.stdout
    assert "curve.png" in result.stderr


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ("contextlib.nullcontext()", INTERRUPTED),
        ("signals.interrupt_at_once(signals.INTERRUPTED)", INTERRUPTED),
        ("signals.interrupt_at_once(signals.TO_CONTINUE)", TO_CONTINUE),
    ],
)
def test_an_interrupted_command_says_how_to_go_on_only_if_it_can(block, told):
    code = (
        "import contextlib, signal\n"
        "from agentrl_pipelines.cli.errors import exit_on_error\n"
        "from agentrl_pipelines.local import signals\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"with exit_on_error(), {block}: signal.raise_signal(signal.SIGINT)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, f"{told}\n")
