import subprocess
import sys

import pytest

from agentrl_envs import registry
from agentrl_envs.errors import OptionError


def test_builtin_environments_have_one_line_descriptions():
    built_in = {"babyai", "textcraft", "corridor", "search", "sciworld", "web"}
    assert set(registry.names()) >= built_in
    assert all(len(line) < 80 for line in registry.names().values())


@pytest.mark.parametrize("name", ["babyai", "textcraft", "corridor", "search", "wordle", "maze"])
def test_task_set_is_created_by_name_with_defaults(name):
    tasks = registry.task_set(name)
    assert tasks.name == name
    assert tasks.task("train", 0).id.startswith(f"{name}-")


@pytest.mark.parametrize("name", registry.names())
def test_the_registry_says_which_environments_can_rewrite_a_goal(name):
    built_in = registry.BUILT_IN[name]
    module = pytest.importorskip(built_in.module)
    assert registry.relabels(name) is hasattr(getattr(module, built_in.tasks), "relabel")


def test_it_is_not_known_of_environments_of_other_packages():
    assert registry.relabels("dial:DialTasks") is None


def test_options_reach_the_environment():
    tasks = registry.task_set("corridor", {"turns": 1})
    environment = tasks.environment()
    offered = environment.reset(tasks.task("train", 0)).admissible
    assert offered
    assert environment.step(offered[0]).truncated


def test_error_for_an_unknown_name_lists_the_known_names():
    with pytest.raises(OptionError, match=r"'labyrinth' is not built in, .* use one of babyai"):
        registry.task_set("labyrinth")


def test_error_names_field_reason_and_fix_of_every_invalid_option():
    with pytest.raises(OptionError) as caught:
        registry.task_set("corridor", {"turns": 0, "colour": "red"})
    lines = str(caught.value).splitlines()
    assert lines == [
        "corridor.options.turns: input should be greater than or equal to 1; change it from 0",
        "corridor.options.colour: corridor has no such option; see `agentrl envs list corridor`",
    ]


def test_a_rule_of_several_options_names_the_first_of_its_message():
    with pytest.raises(OptionError) as caught:
        registry.task_set("search", {"corpus": ["notes.jsonl"]})
    assert str(caught.value) == (
        "search.options.questions: there are none about this corpus; give files of questions"
    )
    assert registry.option_errors("web", {"sites": {"wiki": "http://wiki"}}) == [
        "options: sites and tasks go together: name both, or neither for this package's own sites"
    ]


def test_an_option_without_a_default_is_missing_where_it_is_not_given():
    assert registry.option_errors("gymnasium", {}) == ["id: is missing; set a value"]


def test_option_description_has_type_and_default():
    assert registry.options("corridor")["turns"].startswith("whole number, default 6.")
    described = registry.options("gymnasium")
    assert described["id"].startswith("text, required.")
    assert described["arguments"].startswith("mapping, optional.")


def test_names_does_not_import_environments():
    code = (
        "import sys; from agentrl_envs import registry; registry.names();"
        "sys.exit('minigrid' in sys.modules or 'agentrl_envs.environments.corridor' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=300).returncode == 0


def test_options_are_checked_without_the_libraries_of_the_environments():
    """As in the operator, whose image has none of them."""
    code = (
        "import sys\n"
        "libraries = ('minigrid', 'numpy', 'bm25s', 'minecraft_data', 'playwright', 'gymnasium',"
        " 'textworld', 'miniwob', 'scienceworld')\n"
        "sys.modules.update(dict.fromkeys(libraries))\n"
        "from agentrl_envs.registry import BUILT_IN, option_errors\n"
        "print([name for name in BUILT_IN if not option_errors(name, {'nope': 1})])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout == "[]\n"
