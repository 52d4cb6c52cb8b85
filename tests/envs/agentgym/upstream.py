"""AgentGym's own environments, loaded from a checkout of github.com/WooooDyy/AgentGym (MIT), which
is not part of this repository: `AGENTGYM_SOURCE=<folder> pytest -m slow ...`."""

import gc
import importlib
import importlib.util
import os
import random
import re
import sys
import types
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

COMMIT = "3ef9235d"
"""The commit that the recorded comparisons used."""
RENAMED = {"BabyAI-GoToObjS6-v0": "BabyAI-GoToObjS6-v1"}
"""minigrid 3 no longer makes the version that AgentGym names."""
ONE_ACTION = "Error: Only one 'Action' is allowed per response. Please adjust your response."


def source() -> Path:
    """The checkout; skips the test without one."""
    folder = os.environ.get("AGENTGYM_SOURCE")
    if not folder:
        pytest.skip("AGENTGYM_SOURCE names no checkout of AgentGym")
    return Path(folder)


def babyai() -> Any:
    """AgentGym's module of BabyAI. Packages that it imports and does not use are empty."""
    for name in ("gym", "matplotlib", "matplotlib.pyplot"):
        if importlib.util.find_spec(name.split(".")[0]) is None:
            sys.modules.setdefault(name, types.ModuleType(name))
    sys.modules["gym"].Env = getattr(sys.modules["gym"], "Env", object)
    file = source() / "agentenv-babyai" / "agentenv_babyai" / "environment.py"
    spec = importlib.util.spec_from_file_location("agentgym_babyai", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.all_levels = {k: RENAMED.get(v, v) for k, v in module.all_levels.items()}
    return module


def textcraft() -> tuple[Any, Any]:
    """AgentGym's class of a TextCraft session and its recipes."""
    folder = source() / "agentenv-textcraft" / "agentenv_textcraft"
    package = types.ModuleType("agentenv_textcraft")
    package.__path__ = [str(folder)]
    sys.modules["agentenv_textcraft"] = package
    tree = importlib.import_module("agentenv_textcraft.crafting_tree")
    sessions = importlib.import_module("agentenv_textcraft.environment")
    return sessions.TextCraftEnv, tree.CraftingTree(minecraft_dir=str(folder))


def sciworld() -> Any:
    """AgentGym's module of SciWorld, whose server starts a JVM at once and one for each session."""
    file = source() / "agentenv-sciworld" / "agentenv_sciworld" / "environment.py"
    spec = importlib.util.spec_from_file_location("agentgym_sciworld", file)
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec.loader.exec_module(module)
        gc.collect()  # the JVM that it started to count the tasks
    return module


def action_of(reply: str) -> str | None:
    """The action that AgentGym's clients send for a reply; None: they answer `ONE_ACTION`."""
    found = re.findall(r"Action:\s*(.*?)(?=\n|$)", reply, re.DOTALL)
    if len(found) > 1:
        return None
    return " ".join(re.sub(r"[^A-Za-z0-9, ]+", "", found[-1] if found else "").split()).strip()


@dataclass
class BabyAISession:
    """One session of AgentGym's BabyAI server, in this process."""

    server: Any
    key: int

    def reset(self, data_idx: int) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.server.reset(self.key, data_idx)["observation"]

    def step(self, reply: str) -> dict[str, Any]:
        action = action_of(reply)
        if action is None:
            return {"observation": ONE_ACTION, "reward": 0, "done": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.server.step(self.key, action)


def reply(draws: random.Random, offered: tuple[str, ...], others: tuple[str, ...]) -> str:
    """Mostly an action that is offered, sometimes one of `others`, at times two or none."""
    kind = draws.random()
    if kind < 0.85:
        return f"Thought: hm.\nAction: {draws.choice(offered)}"
    if kind < 0.98:
        return f"Action:\n{draws.choice(others)}"
    return draws.choice(("no action at all", "Action: turn left\nAction: turn right"))
