import subprocess
import sys

import pytest

from agentrl_envs import registry


def test_every_built_in_environment_has_a_line():
    assert set(registry.names()) == {"babyai", "textcraft", "corridor"}
    assert all(len(line) < 80 for line in registry.names().values())


@pytest.mark.parametrize("name", ["babyai", "textcraft", "corridor"])
def test_a_name_gives_its_task_set_with_defaults(name):
    tasks = registry.task_set(name)
    assert tasks.name == name
    assert tasks.task("train", 0).id.startswith(f"{name}-")


def test_options_reach_the_environment():
    tasks = registry.task_set("corridor", {"turns": 1})
    environment = tasks.environment()
    offered = environment.reset(tasks.task("train", 0)).admissible
    assert offered
    assert environment.step(offered[0]).truncated


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(registry.OptionError, match="'maze' is not built in; use one of babyai"):
        registry.task_set("maze")


def test_every_wrong_option_is_told_with_field_reason_and_fix():
    with pytest.raises(registry.OptionError) as caught:
        registry.task_set("corridor", {"turns": 0, "colour": "red"})
    lines = str(caught.value).splitlines()
    assert lines == [
        "corridor.options.turns: input should be greater than or equal to 1; change it from 0",
        "corridor.options.colour: corridor has no such option; see `agentrl envs list corridor`",
    ]


def test_options_are_described_by_type_and_default():
    assert registry.options("corridor")["turns"].startswith("whole number, default 6.")


def test_the_names_load_no_environment():
    code = (
        "import sys; from agentrl_envs import registry; registry.names();"
        "sys.exit('minigrid' in sys.modules or 'agentrl_envs.environments.corridor' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=300).returncode == 0
