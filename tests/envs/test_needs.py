from collections.abc import Callable

import pytest

from agentrl_envs.needs import SCIENCE, WEB, Needs


def here(*names: str) -> Callable[[str], bool]:
    return names.__contains__


def test_an_environment_that_needs_nothing_lacks_nothing():
    assert list(Needs().missing(here(), here())) == []


def test_missing_packages_and_programs_are_named_with_the_command_that_installs_them():
    assert list(SCIENCE.missing(here("py4j"), here())) == [
        ("scienceworld", "pip install 'agentrl[envs,science]'"),
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
