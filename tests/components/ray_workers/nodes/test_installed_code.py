"""The code of the driver, and that of its actors."""

import os
import shutil
import sys
from socket import gethostname

import pytest
from learner_bench import spec
from ray_bench import connected, model_folder, reserved

import agentrl_components
from agentrl_components.errors import SpecError
from agentrl_components.ray_workers.lifetimes import WithDriver
from agentrl_components.ray_workers.nodes.installed_code import (
    PACKAGES,
    check_code,
    digest_of_code,
    installed_code,
)
from agentrl_components.ray_workers.samplers import RaySamplers
from agentrl_components.ray_workers.trainers import RayTrainers

SPEC = spec()


class InstalledIn(WithDriver):
    """Actors run the packages in a folder, as on another machine."""

    def __init__(self, folder):
        paths = [str(folder), *(path for path in sys.path if path)]
        self._env = {"PYTHONPATH": os.pathsep.join(paths)}

    def options(self, name):
        return {"runtime_env": {"env_vars": self._env}}


def write(folder, **files):
    folder.mkdir()
    for name, content in files.items():
        (folder / f"{name}.py").write_text(content)
    return {"package": folder}


def test_the_digest_is_that_of_the_modules_wherever_they_are_installed(tmp_path):
    checkout = write(tmp_path / "checkout", a="x = 1\n", b="")
    wheel = write(tmp_path / "wheel", a="x = 1\n", b="")
    (tmp_path / "checkout/__pycache__").mkdir()
    (tmp_path / "checkout/__pycache__/a.cpython-313.pyc").write_bytes(b"\0")
    (tmp_path / "checkout/.#a.py").symlink_to("nowhere")  # a lock of Emacs
    (tmp_path / "checkout/page.html").write_text("<p>")
    assert digest_of_code(checkout) == digest_of_code(wheel)
    for number, files in enumerate(({"a": "x = 2\n", "b": ""}, {"a": "x = 1\n"}, {"b": "x = 1\n"})):
        assert digest_of_code(write(tmp_path / str(number), **files)) != digest_of_code(wheel)


def test_other_code_than_the_drivers_is_refused_by_the_name_of_the_machine():
    check_code(installed_code())
    with pytest.raises(SpecError, match=f"compute.ray: {gethostname()} has another AgentRL"):
        check_code("0" * 16)


@pytest.mark.slow
def test_actors_with_other_code_than_the_drivers_are_refused(tmp_path):
    pytest.importorskip("ray")
    for name, package in PACKAGES.items():
        shutil.copytree(package.__path__[0], tmp_path / name)
    module = tmp_path / agentrl_components.__name__ / "sharded/rank.py"
    module.write_text(f"{module.read_text()}# of another commit\n")
    model, other = model_folder(SPEC, tmp_path / "model"), InstalledIn(tmp_path)
    told = f"{gethostname()} has another AgentRL .* install the same commit"
    with connected(trainers=1, samplers=1):
        for open_actors in (
            RaySamplers(SPEC, model, reserved(), "cpu", None, other).open,
            RayTrainers(SPEC, model, reserved(), "cpu", other).open,
        ):
            with pytest.raises(SpecError, match=told):
                open_actors()
