"""AgentGym's own servers, in processes, and its own clients, in this one: from the checkout that
`AGENTGYM_SOURCE` names. Packages that they import and do not use here are empty."""

import importlib
import importlib.util
import json
import socket
import subprocess
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from .upstream import RENAMED, source

SERVE = """
import importlib, importlib.util, json, sys, types
package, folder, fd, renamed = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
for name in ("gym", "matplotlib", "matplotlib.pyplot"):
    if importlib.util.find_spec(name.split(".")[0]) is None:
        sys.modules[name] = types.ModuleType(name)
if not hasattr(sys.modules.get("gym", object), "Env") and "gym" in sys.modules:
    sys.modules["gym"].Env = object
sys.path.insert(0, folder)
import minigrid, uvicorn
app = importlib.import_module(package).app
if package == "agentenv_babyai":
    levels = importlib.import_module("agentenv_babyai.environment").all_levels
    levels.update({key: renamed.get(value, value) for key, value in levels.items()})
uvicorn.run(app, fd=fd, log_level="critical")
"""


@contextmanager
def server(family: str) -> Iterator[str]:
    """AgentGym's server of a family; yields its URL. Calls wait until it has started."""
    folder = source() / f"agentenv-{family}"
    pytest.importorskip("fastapi")
    bound = socket.create_server(("127.0.0.1", 0))
    command = [sys.executable, "-c", SERVE, f"agentenv_{family}", str(folder)]
    process = subprocess.Popen(
        [*command, str(bound.fileno()), json.dumps(RENAMED)],
        cwd=folder,
        pass_fds=[bound.fileno()],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        process.kill()
        process.communicate()
        bound.close()


def client_class(module: str, name: str) -> type[Any]:
    """A class of AgentGym's clients, without the training stack that its package imports."""
    pytest.importorskip("requests")
    folder = source() / "agentenv" / "agentenv"
    package = types.ModuleType("agentenv")
    package.__path__ = [str(folder)]
    controller = types.ModuleType("agentenv.controller")
    controller.__path__ = [str(folder / "controller")]
    envs = types.ModuleType("agentenv.envs")
    envs.__path__ = [str(folder / "envs")]
    sys.modules |= {
        "agentenv": package,
        "agentenv.controller": controller,
        "agentenv.envs": envs,
    }
    base = importlib.import_module("agentenv.controller.env")
    kinds = importlib.import_module("agentenv.controller.types")
    controller.BaseEnvClient = base.BaseEnvClient
    controller.BaseTask = object
    controller.ActionFormat = kinds.ActionFormat
    try:
        return getattr(importlib.import_module(f"agentenv.envs.{module}"), name)
    finally:
        for loaded in [each for each in sys.modules if each.split(".")[0] == "agentenv"]:
            del sys.modules[loaded]
