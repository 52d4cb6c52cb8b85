"""A command that a test has started ends with the test's block, and so does what it started."""

import os
import subprocess
import sys

import psutil
import pytest
from started import started

PARENT = """
import os, subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
same, other = (subprocess.Popen(sleep, start_new_session=own) for own in (False, True))
print(same.pid, other.pid, flush=True)
if sys.argv[1:]:
    other.kill()
    os._exit(0)
time.sleep(600)
"""


def start_and_fail(found: list[psutil.Process], *ends: str) -> None:
    with started([sys.executable, "-c", PARENT, *ends]) as process:
        assert process.stdout is not None
        found += map(psutil.Process, map(int, process.stdout.readline().split()))
        found.append(psutil.Process(process.pid))
        if ends:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        raise ValueError("the test fails")


@pytest.mark.parametrize("ends", [(), ("ends",)], ids=["living", "ended"])
def test_nothing_of_a_command_outlives_a_test_that_fails(ends):
    found: list[psutil.Process] = []
    with pytest.raises(ValueError, match="the test fails"):
        start_and_fail(found, *ends)
    assert len(found) == 3
    assert psutil.wait_procs(found, timeout=60)[1] == []


def test_a_command_that_has_ended_keeps_its_exit_code():
    with started([sys.executable, "-c", "print('done'); raise SystemExit(3)"]) as process:
        assert process.communicate(timeout=300) == ("done\n", None)
    assert process.returncode == 3
    assert isinstance(process, subprocess.Popen)
