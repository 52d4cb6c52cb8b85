import subprocess
import sys

import click
import pytest

from agentrl_pipelines.cli.main import main

HEAVY = {
    "torch",
    "numpy",
    "transformers",
    "mlflow",
    "matplotlib",
    "minio",
    "openai",
    "pydantic",
    "rich",
}

LOADED = """
import sys
from agentrl_pipelines.cli.main import main
for arguments in (["--help"], ["run", "--help"], ["eval", "--help"]):
    main(arguments, standalone_mode=False)
print(" ".join(sorted({name.split(".")[0] for name in sys.modules})))
"""


def commands(group: click.Group, path: str = "agentrl") -> dict[str, click.Command]:
    """All commands under `group` by their command line."""
    found: dict[str, click.Command] = {}
    for name, command in group.commands.items():
        found[f"{path} {name}"] = command
        if isinstance(command, click.Group):
            found |= commands(command, f"{path} {name}")
    return found


def test_help_imports_no_slow_packages():
    # torch alone takes seconds to import
    result = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=300, check=True
    )
    assert not HEAVY & set(result.stdout.splitlines()[-1].split())


def test_all_commands_of_the_readme_exist():
    assert set(commands(main)) >= {
        f"agentrl {name}"
        for name in (
            *("run", "validate", "eval", "report", "metrics", "crd"),
            *("envs", "envs list", "envs serve", "envs check", "envs play"),
        )
    }


@pytest.mark.parametrize("name", sorted(commands(main)))
def test_every_command_and_option_has_help(name):
    command = commands(main)[name]
    assert command.help
    options = [one for one in command.params if isinstance(one, click.Option)]
    assert [one.name for one in options if not one.help] == []
