import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentrl_envs.errors import OptionError
from agentrl_envs.scaffold import write_package


def test_a_new_environment_and_its_test_have_at_most_60_lines(tmp_path):
    module, test, _ = write_package("my-world", tmp_path / "my-world")
    assert len(module.read_text().splitlines()) + len(test.read_text().splitlines()) <= 60


def test_the_test_of_a_new_environment_passes_and_it_is_clean(tmp_path: Path):
    folder = tmp_path / "my-world"
    write_package("my-world", folder)
    for command in (
        ["pytest", "-q", "-p", "no:cacheprovider"],
        ["mypy", "--strict", "--cache-dir", os.devnull, "my_world.py"],
        ["ruff", "check", "--isolated", "--select", "E,F,UP,B,RUF,ANN", "--line-length", "100"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("My World", "use lower-case letters, digits and hyphens"),
        ("class", "is not the name of an environment"),
        ("random", "random is the name of another Python module"),
        ("agentrl-envs", "is the name of another Python module"),
        ("numpy", "numpy is the name of another Python module"),
        ("babyai", "babyai is the name of another environment"),
        ("corridor", "corridor is the name of another environment"),
    ],
)
def test_a_name_that_cannot_be_a_module_is_refused(tmp_path, name, message):
    with pytest.raises(OptionError, match=message):
        write_package(name, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_folder_that_exists_is_left_alone(tmp_path):
    with pytest.raises(OptionError, match="exists; choose another"):
        write_package("my-world", tmp_path)
