"""What benchmarks record about the machine that they ran on."""

import platform
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
