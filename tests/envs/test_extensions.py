import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel

from agentrl_envs import extensions, registry
from agentrl_envs.errors import CodeError, OptionError
from agentrl_envs.scaffold import write_package
from agentrl_envs.task_list import TaskList

OWN = """
from pydantic import BaseModel
from agentrl_envs.task_list import TaskList

class Sizes(TaskList):
    name = "sizes"
    def __init__(self, most: int, words: list[str] = []) -> None:
        if most == 13:
            raise ValueError("most: 13 is unlucky; use 14")
        if most == 14:
            raise KeyError("fourteen")
        super().__init__({"size": size} for size in range(most))
    def instructions(self): return ""
    def environment(self): raise NotImplementedError

class Model(BaseModel):
    most: int = 20

class Modelled(Sizes):
    def __init__(self, options: Model | None = None) -> None:
        super().__init__(options.most)

class NoTasks: name = "no-tasks"

class Odd:
    def __init__(self, handle: Sizes) -> None: ...

value = 3
"""


@pytest.fixture
def place(tmp_path: Path) -> Callable[..., Path]:
    """Put a module on the path; with `points`, as the installed package NAME with entry points."""
    made: list[str] = []

    def put(module: str, code: str, package: str = "", points: str = "") -> Path:
        (tmp_path / f"{module}.py").write_text(code)
        if package:
            info = tmp_path / f"{package}-1.0.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
            (info / "entry_points.txt").write_text(f"[agentrl.environments]\n{points}\n")
        made.append(module)
        return tmp_path

    sys.path.insert(0, str(tmp_path))
    yield put
    sys.path.remove(str(tmp_path))
    for module in made:
        sys.modules.pop(module, None)


def test_a_class_is_found_by_module_and_name(place):
    place("own_sizes", OWN)
    tasks = registry.task_set("own_sizes:Sizes", {"most": 30})
    assert isinstance(tasks, TaskList)
    assert (tasks.size("train") or 0) + (tasks.size("heldout") or 0) == 30


def test_a_class_is_found_by_the_entry_point_of_its_package(place):
    place("own_sizes", OWN, package="own-sizes", points="sizes = own_sizes:Sizes")
    assert extensions.installed()["sizes"].summary == "own_sizes:Sizes of own-sizes"
    assert "own_sizes" not in sys.modules
    assert registry.task_set("sizes", {"most": 30}).name == "sizes"


def test_parameters_of_the_constructor_are_options(place):
    place("own_sizes", OWN)
    assert registry.options("own_sizes:Sizes") == {
        "most": "whole number, required. ",
        "words": "list of texts, default []. ",
    }
    assert registry.option_errors("own_sizes:Sizes", {"most": 3, "colour": 1}) == [
        "colour: own_sizes:Sizes has no such option; see `agentrl envs list own_sizes:Sizes`"
    ]


def test_fields_of_one_pydantic_model_are_options(place):
    place("own_sizes", OWN)
    assert issubclass(
        extensions.Extension(reference="own_sizes:Modelled").options_model(), BaseModel
    )
    tasks = registry.task_set("own_sizes:Modelled", {"most": 40})
    assert (tasks.size("train") or 0) + (tasks.size("heldout") or 0) == 40


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:Tasks", "cannot be imported .* install its package with pip"),
        ("own_sizes:Missing", "own_sizes has no class Missing; check the name"),
        ("own_sizes:value", "own_sizes has no class value"),
        ("own_sizes:NoTasks", "is no task set, it lacks instructions, size, task, environment"),
        ("own_sizes:Odd", "a parameter of its constructor is not an option"),
        ("babiai", "did you mean babyai"),
    ],
)
def test_what_is_no_environment_is_refused_with_reason_and_fix(place, name, message):
    place("own_sizes", OWN)
    with pytest.raises(OptionError, match=message):
        registry.task_set(name, {})


@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        ("Path | None", "name 'Path' is not defined"),
        ("Path.Missing", "name 'Path' is not defined"),
        ("TaskList.Missing", "type object 'TaskList' has no attribute 'Missing'"),
        ("'list[' ", "Forward reference must be an expression -- got 'list['"),
    ],
)
def test_a_parameter_whose_type_is_not_there_at_run_time_is_refused_with_the_fix(
    place, hint, reason
):
    """Regression: the command line ended in a traceback."""
    place(
        "own_folder",
        f"""
from __future__ import annotations
from typing import TYPE_CHECKING
from agentrl_envs.task_list import TaskList
if TYPE_CHECKING:
    from pathlib import Path

class Tasks(TaskList):
    def __init__(self, folder: {hint} = None) -> None: ...
""",
    )
    for read in (registry.options, lambda name: registry.option_errors(name, {})):
        with pytest.raises(OptionError) as raised:
            read("own_folder:Tasks")
        assert str(raised.value) == (
            "own_folder:Tasks: the type of a parameter of its constructor cannot be read "
            f"({reason}); import it outside of `if TYPE_CHECKING`, or use str, int, float, bool "
            "or lists of them"
        )


def test_an_option_that_the_constructor_refuses_is_the_users_mistake(place):
    place("own_sizes", OWN)
    with pytest.raises(OptionError, match="own_sizes:Sizes: most: 13 is unlucky; use 14"):
        registry.task_set("own_sizes:Sizes", {"most": 13})


def test_a_constructor_that_fails_is_an_error_of_its_author(place):
    place("own_sizes", OWN)
    message = "environment own_sizes:Sizes: KeyError: 'fourteen' at own_sizes.py:11\n  File"
    with pytest.raises(CodeError, match=message):
        registry.task_set("own_sizes:Sizes", {"most": 14})


def test_a_module_that_fails_is_an_error_of_its_author(place):
    place("own_sizes", "size = 1 / 0")
    with pytest.raises(CodeError, match=r"ZeroDivisionError: division by zero at own_sizes.py:1"):
        registry.options("own_sizes:Sizes")


def test_options_are_not_checked_where_a_package_that_the_module_imports_is_missing(place):
    place("own_sizes", "import no_such_package")
    assert registry.option_errors("own_sizes:Sizes", {"any": 1}) == []


def test_two_packages_with_one_name_are_refused_and_both_are_named(place):
    place("own_sizes", OWN, package="own-sizes", points="sizes = own_sizes:Sizes")
    place("other_sizes", OWN, package="other-sizes", points="sizes = other_sizes:Sizes")
    with pytest.raises(OptionError, match=r"-sizes both name one .sizes."):
        extensions.installed()


def test_a_built_in_name_is_not_taken_over_by_a_package(place):
    place("own_sizes", OWN, package="own-sizes", points="corridor = own_sizes:Sizes")
    assert registry.task_set("corridor").name == "corridor"


def test_options_of_a_package_that_is_not_installed_are_left_to_where_it_runs():
    assert registry.option_errors("no_such_module:Tasks", {"any": 1}) == []
    assert registry.option_errors("no-such-name", {"any": 1}) == []


def test_looking_for_a_module_does_not_import_it(place):
    place("own_sizes", "raise SystemExit('imported')")
    assert extensions.is_reference("own_sizes:Sizes")
    assert registry.is_installed("own_sizes:Sizes")
    assert "own_sizes" not in sys.modules


def test_a_new_package_names_its_environment_in_an_entry_point(tmp_path):
    write_package("my-world", tmp_path / "my-world")
    metadata = (tmp_path / "my-world/pyproject.toml").read_text()
    assert '[project.entry-points."agentrl.environments"]\nmy-world = "my_world:MyWorldTasks"' in (
        metadata
    )
