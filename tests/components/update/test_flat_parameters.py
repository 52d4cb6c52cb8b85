"""Shared memory that is too small for the vectors of a model."""

import shutil
import subprocess
import sys

import pytest

PROGRAM = """
import torch
from agentrl_components.errors import RunError
from agentrl_components.update.flat_parameters import FlatParameters
try:
    FlatParameters(torch.nn.Linear(300, 300, bias=False))
except RunError as error:
    print(error)
"""
SMALL = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"')


def test_too_little_shared_memory_is_an_error_that_says_how_to_get_more():
    if shutil.which("unshare") is None or subprocess.run([*SMALL, "sh", "true"]).returncode:
        pytest.skip("no mount namespaces here")
    command = [*SMALL, "sh", sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    # 90,000 weights and two vectors of gradients, of 4 bytes each
    assert "weights and gradients need 1 MB of shared memory, and /dev/shm has 1 MB" in done.stdout
    assert "--shm-size with Docker, an emptyDir with medium: Memory on Kubernetes" in done.stdout
