"""Which compiler is found."""

import pytest

from agentrl_components.compilers import compiler


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs programs, and nothing else."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)

    def place(*names):
        for name in names:
            (tmp_path / name).write_text("#!/bin/sh\n")
            (tmp_path / name).chmod(0o755)
        return tmp_path

    return place


def test_kernels_for_gpus_need_a_c_compiler_and_those_for_cpus_one_of_cpp(install, monkeypatch):
    assert compiler("cuda") is None
    folder = install("clang", "g++")
    assert compiler("cuda") == str(folder / "clang")
    assert compiler("cpu") == str(folder / "g++")
    install("gcc", "icx")
    assert compiler("cuda") == str(folder / "gcc")
    monkeypatch.setenv("CC", "icx")
    assert compiler("cuda") == str(folder / "icx")


def test_a_compiler_of_the_environment_that_is_not_installed_is_not_replaced(install, monkeypatch):
    install("gcc", "g++")
    monkeypatch.setenv("CC", "gone")
    monkeypatch.setenv("CXX", "gone")
    assert compiler("cuda") is None
    assert compiler("cpu") is None
