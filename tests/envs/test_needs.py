from collections.abc import Callable

import pytest

from agentrl_envs.environments.sciworld.options import SciWorldOptions
from agentrl_envs.needs import PYTHON_ONLY, SCIENCE, WEB, Needs


def here(*names: str) -> Callable[[str], bool]:
    return names.__contains__


def test_an_environment_that_needs_nothing_lacks_nothing():
    assert list(Needs().missing(here(), here())) == []


def test_missing_packages_and_programs_are_named_with_the_command_that_installs_them():
    assert list(SCIENCE.missing(here("py4j"), here())) == [
        (
            "scienceworld",
            "install the extras `envs,science` (`pip install '.[envs,science]'` in a checkout of "
            "AgentRL)",
        ),
        ("Java 17", "apt-get install openjdk-17-jre-headless"),
    ]


@pytest.mark.parametrize("command", ["chromium", "google-chrome"])
def test_one_command_of_a_program_is_enough(command):
    packages = here("playwright", "miniwob")
    assert list(WEB.missing(packages, here(command))) == []
    assert list(WEB.missing(packages, here("firefox"))) == [
        ("Chromium", "apt-get install chromium-headless-shell")
    ]


def test_modules_are_looked_for_without_importing_them():
    needs = Needs(modules=("this", "no_such_module"))
    assert [what for what, _ in needs.missing()] == ["no_such_module"]


def test_options_bound_the_sessions_of_a_process():
    assert SCIENCE.most_sessions({}) == 64
    assert SCIENCE.most_sessions({"jvms": 2, "worlds": 10}) == 20
    assert WEB.most_sessions({"sessions": 7}) == 7
    assert PYTHON_ONLY.most_sessions({}) is None


def test_the_bounds_have_the_defaults_of_the_options():
    sciworld = SciWorldOptions()
    assert SCIENCE.bounds == (("jvms", sciworld.jvms), ("worlds", sciworld.worlds))
    web = pytest.importorskip("agentrl_envs.environments.web.options", exc_type=ImportError)
    assert WEB.bounds == (("sessions", web.WebOptions().sessions),)


def test_the_memory_of_a_server_grows_with_its_sessions():
    assert (WEB.memory_of(4), WEB.memory_of(16), WEB.memory_of(64)) == (2048, 2048, 6848)
    assert SCIENCE.memory_of(64) == SCIENCE.memory_mib
    assert PYTHON_ONLY.memory_of(256) == PYTHON_ONLY.memory_mib
