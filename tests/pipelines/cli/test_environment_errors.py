"""Errors in the code of a user's environment are one message, without a traceback of ours."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from corridor_run import HEADER

from agentrl_pipelines.cli.main import main

LAMPS = """\
from agentrl_envs.environments.corridor import CorridorEnvironment, CorridorTasks


class LampTasks(CorridorTasks):
    def __init__(self, fails_in: str = "step") -> None:
        super().__init__()
        if fails_in == "constructor":
            raise KeyError("no lamp")
        self.fails_in = fails_in

    def environment(self):
        return Lamps(self.fails_in)


class Lamps(CorridorEnvironment):
    def __init__(self, fails_in: str) -> None:
        super().__init__()
        self.fails_in = fails_in

    def step(self, action):
        if self.fails_in == "step":
            raise KeyError("bug in my env")
        return super().step(action), 0.0
"""

MANIFEST = (
    HEADER.replace("builtin: corridor", "builtin: 'lamps:LampTasks', replicas: 0")
    + """\
  horizon: {phases: [{maxTurns: 4, iterations: 2}]}
  rollout: {tasks: 2, groupSize: 2, actions: admissible, maxTokensPerTurn: 4}
  evaluation: {tasks: 4}
"""
)


@pytest.fixture
def lamps(tmp_path):
    """A folder with the module `lamps`, which can be imported."""
    (tmp_path / "lamps.py").write_text(LAMPS)
    sys.path.insert(0, str(tmp_path))
    yield tmp_path
    sys.path.remove(str(tmp_path))
    sys.modules.pop("lamps", None)


def invoke(folder: Path, command: str, fails_in: str) -> Result:
    if command == "play":
        arguments = ["envs", "play", "lamps:LampTasks", "-o", f"fails_in={fails_in}"]
        return CliRunner().invoke(main, arguments, input="left\n")
    file = folder / "run.yaml"
    file.write_text(MANIFEST)
    where = {"run": ["--root", str(folder / "root")], "eval": ["--out", str(folder / "out")]}
    option = f"environments[0].options={{fails_in: {fails_in}}}"
    arguments = [command, str(file), "--set", option, *where.get(command, [])]
    return CliRunner().invoke(main, arguments)


@pytest.mark.parametrize("command", ["run", "eval", "play"])
def test_an_error_in_step_is_named_with_its_line_and_task(lamps, command):
    result = invoke(lamps, command, "step")
    assert result.exit_code == 1
    first, *frames = result.stderr.splitlines()
    assert "environment corridor: KeyError: 'bug in my env' at lamps.py:22 (task corridor-" in first
    assert [line for line in frames if "File" in line] == [
        f'  File "{lamps / "lamps.py"}", line 22, in step'
    ]


@pytest.mark.parametrize("command", ["run", "eval", "play"])
def test_a_step_that_returns_something_else_is_named(lamps, command):
    result = invoke(lamps, command, "return")
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert "environment corridor: step: the answer is (Step(" in line


@pytest.mark.parametrize("command", ["run", "eval", "validate", "play"])
def test_a_constructor_that_raises_is_named_with_its_line(lamps, command):
    result = invoke(lamps, command, "constructor")
    assert result.exit_code == 1
    assert "environment lamps:LampTasks: KeyError: 'no lamp' at lamps.py:8" in result.stderr
    assert "Traceback" not in result.output
