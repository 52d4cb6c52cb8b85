"""Termination messages of containers."""

import json

import pytest

from agentrl_envs import registry
from agentrl_envs.errors import OptionError
from agentrl_pipelines.stages.termination import reported


def test_a_wrong_option_of_a_served_environment_is_its_termination_message(tmp_path):
    path = tmp_path / "termination-log"
    path.touch()
    with pytest.raises(OptionError), reported(OptionError, path):
        registry.task_set("corridor", {"turns": 0})

    written = json.loads(path.read_text())
    assert (written["reason"], written["final"]) == ("OptionError", True)
    assert written["message"].startswith("corridor.options.turns: ")


def test_another_error_is_not_written(tmp_path):
    path = tmp_path / "termination-log"
    path.touch()
    with pytest.raises(OSError, match="in use"), reported(OptionError, path):
        raise OSError("in use")

    assert path.read_text() == ""
