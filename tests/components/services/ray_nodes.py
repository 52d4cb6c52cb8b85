"""Nodes of a Ray cluster on this machine: each has an address of the loopback network."""

import os
import subprocess
import sys
from contextlib import contextmanager, suppress

import psutil

from agentrl_components.ray_workers.nodes.driver_node import FOLDER
from agentrl_components.ray_workers.nodes.embedded import HEAD_WAIT, START_S, WAITS
from agentrl_components.ray_workers.nodes.temporary_folder import temporary_folder
from agentrl_components.storage.scratch import ScratchFolder

START = (
    "from agentrl_components.ray_workers.nodes.driver_node import ENDS_WITH_PARENT as p;"
    "import sys; sys.argv[0] = '-c'; exec(p)"
)
"""Ends with the process of the tests, however that ends."""


@contextmanager
def started(host, *flags, env=None):
    """A running node at `host`. Yields its process."""
    command = [
        sys.executable, "-c", START, "-m", "ray.scripts.scripts", "start", "--block", *flags,
        f"--node-ip-address={host}", "--num-gpus=0", "--disable-usage-stats",
        "--object-store-memory=100000000",
    ]  # fmt: skip
    env = (
        WAITS
        | {HEAD_WAIT: str(START_S)}
        | (os.environ if env is None else env)
        | {"PYTHONUNBUFFERED": "1"}
    )
    with (
        ScratchFolder(temporary_folder(FOLDER)) as folder,
        subprocess.Popen(
            [*command, f"--temp-dir={folder}"], env=env, stdout=subprocess.PIPE, text=True
        ) as process,
    ):
        try:
            assert any("Ray runtime started" in line for line in process.stdout)
            yield process
        finally:
            process.terminate()
            process.communicate()  # a process that dies writes more than a pipe holds


def below(process, name):
    """Processes below `process` whose name, or command line, begins with `name`."""
    found = []
    for one in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if one.name().startswith(name) or "".join(one.cmdline()[:1]).startswith(name):
                found.append(one)
    return found
