"""What benchmarks record about the machine that they ran on."""

import platform
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
EPYC = """\
processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 17
model name\t: AMD EPYC
cpu MHz\t\t: 2596.142

processor\t: 1
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 17
model name\t: AMD EPYC
cpu MHz\t\t: 2596.142
"""
ARM = """\
processor\t: 0
BogoMIPS\t: 50.00
CPU implementer\t: 0x41
CPU part\t: 0xd0c
"""


@pytest.fixture
def machine(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return import_module("report.machine").machine


def test_a_measurement_names_the_processor_with_family_model_and_cores(machine, tmp_path):
    (tmp_path / "cpuinfo").write_text(EPYC)
    found = machine(tmp_path / "cpuinfo")
    assert found["processor"] == {"name": "AMD EPYC", "family": 25, "model": 17, "cores": 2}
    assert {"cores", "load", "python"} < set(found)


def test_elsewhere_a_measurement_has_the_name_that_python_knows(machine, tmp_path):
    (tmp_path / "cpuinfo").write_text(ARM)
    known = {"name": platform.processor() or platform.machine()}
    assert machine(tmp_path / "cpuinfo")["processor"] == known
    assert machine(tmp_path / "missing")["processor"] == known


def git(folder, *words):
    settings = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", str(folder), *settings, *words], check=True, capture_output=True)


def test_a_measurement_names_the_commit_and_whether_files_differ_from_it(machine, tmp_path):
    commit = import_module("report.machine").commit
    assert commit(tmp_path) == ""
    git(tmp_path, "init")
    (tmp_path / "code").write_text("1")
    git(tmp_path, "add", "code")
    git(tmp_path, "commit", "-m", "first")
    clean = commit(tmp_path)
    assert re.fullmatch("[0-9a-f]{8}", clean)
    (tmp_path / "code").write_text("2")
    assert commit(tmp_path) == f"{clean}+"
    assert {"command", "commit"} < set(machine())


def test_a_measurement_has_its_command_with_the_script_as_from_the_repository(machine):
    """In a process of its own, whose command line is known."""
    code = (
        "import sys; sys.argv = sys.argv[1:]; from report.machine import command; print(command())"
    )
    script = BENCHMARKS / "horizon.py"
    words = [sys.executable, "-c", code, str(script), "--staged", "3, 5"]
    done = subprocess.run(words, cwd=BENCHMARKS, capture_output=True, text=True, check=True)
    assert done.stdout == "python benchmarks/horizon.py --staged '3, 5'\n"
