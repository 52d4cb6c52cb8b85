"""Our SciWorld in `compat: agentgym` beside AgentGym's own code, command by command."""

import gc
import random
import shutil
import warnings

import pytest

from agentgym import upstream
from agentrl_envs.environments.sciworld import SciWorldOptions, SciWorldTasks
from agentrl_envs.environments.sciworld.catalogue import ITEMS, of_item
from agentrl_envs.environments.sciworld.payload import task_of

pytestmark = pytest.mark.slow

ITEM_IDS = (0, 130, 1400, 2940, 3540, 4245)
TURNS = 15
COMMANDS = (
    "look around", "inventory", "task", "wait1", "open door to kitchen", "go to kitchen",
    "open door to hallway", "go to hallway", "open door to outside", "go to outside",
    "pick up orange", "look at picture", "open cupboard", "pick up thermometer", "xyzzy",
    "open door to greenhouse", "go to greenhouse", "open door to workshop", "go to workshop",
)  # fmt: skip


def test_items_observations_and_scores_are_those_of_agentgym():
    if shutil.which("java") is None:
        pytest.skip("needs Java 17")
    module = upstream.sciworld()
    server = module.server
    assert len(server.games) == ITEMS
    assert [(game["taskName"], game["variationIdx"]) for game in server.games] == [
        of_item(item) for item in range(ITEMS)
    ]
    options = SciWorldOptions(tasks=("agentgym",), text="agentgym", compat="agentgym")
    ours = SciWorldTasks(options).environment()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        key = server.create()["id"]
        for item in ITEM_IDS:
            theirs = server.reset(key, item)
            first = ours.reset(task_of(*of_item(item), "train"))
            opening = f"{theirs['task_description']}\n{theirs['observation']}"
            assert lines(first.text) == lines(opening)
            draws = random.Random(item)
            for _ in range(TURNS):
                command = draws.choice(COMMANDS)
                theirs = server.step(key, command)
                step = ours.step(f"Thought:\nhm.\n\nAction:\n{command}")
                if not theirs["observation"].startswith("Ambiguous request:"):
                    assert lines(step.observation.text) == lines(theirs["observation"])
                assert step.raw_score == theirs["score"]
                assert step.terminated == theirs["done"]
        server.close(key)
        server.env.clear()
        gc.collect()  # AgentGym's server leaves pipes open, of which Python warns
    ours.close()


def lines(text: str) -> list[str]:
    """The lines in one order: ScienceWorld's own order of objects of one name varies."""
    return sorted(text.split("\n"))
