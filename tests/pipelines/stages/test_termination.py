"""Termination messages of containers."""

import json

import pytest

from agentrl_envs import registry
from agentrl_envs.errors import OptionError
from agentrl_pipelines.stages.termination import reported, write_termination


def test_a_wrong_option_of_a_served_environment_is_its_termination_message(tmp_path):
    path = tmp_path / "termination-log"
    path.touch()
    with pytest.raises(OptionError), reported(OptionError, path):
        registry.task_set("corridor", {"turns": 0})

    written = json.loads(path.read_text())
    assert (written["reason"], written["final"]) == ("OptionError", True)
    assert written["message"].startswith("corridor.options.turns: ")


@pytest.mark.parametrize("part", ["a", '"', "ä\n", "\ud83d"])
def test_kubernetes_keeps_all_of_a_long_message_that_is_written(tmp_path, part):
    path = tmp_path / "termination-log"
    path.touch()
    write_termination("SpecError", part * 5000, path, permanent=True)

    assert 4085 <= path.stat().st_size <= 4096
    written = json.loads(path.read_text())
    assert written["reason"] == "SpecError"
    assert (part * 5000).startswith(written["message"])


def test_another_error_is_not_written(tmp_path):
    path = tmp_path / "termination-log"
    path.touch()
    with pytest.raises(OSError, match="in use"), reported(OptionError, path):
        raise OSError("in use")

    assert path.read_text() == ""
