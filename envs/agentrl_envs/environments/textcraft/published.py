"""TextCraft as AgentGym plays it (`compat: agentgym`): its commands and its words.

Unlike in `environment`, every recipe of Minecraft can be executed and every raw item taken, whether
shown or not; the count before a product is ignored, `get 0` succeeds, letter case matters, and
whatever follows `inventory` does not. One defect is fixed: an ingredient named twice needs the sum
of both counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache

from agentrl_envs.env import Observation, Step, Task, opening_exchange
from agentrl_envs.environments.textcraft.crafting import Workshop
from agentrl_envs.environments.textcraft.payload import task_problem
from agentrl_envs.environments.textcraft.recipes import Recipe
from agentrl_envs.environments.textcraft.recipes_minecraft import minecraft_book
from agentrl_envs.environments.textcraft.reply_parser import ONE_ACTION
from agentrl_envs.environments.textcraft.text_form import INSTRUCTIONS, AgentGymForm
from agentrl_envs.errors import TaskError

PROMPT = opening_exchange(INSTRUCTIONS, "OK. I will follow the instructions.")
"""AgentGym's form of the prompt: a user message and a reply. The words are ours."""

TEST_COUNTS = {1: 31, 2: 41, 3: 25, 4: 3}
"""Number of the data set's test tasks by depth. Which goal an id of it means depends on the order
in which AgentGym's server reads its folder of recipes, so the goals themselves are not defined."""

_ACTION = re.compile(r"Action:\s*([^\n]*)")
_STRANGE = re.compile(r"[^A-Za-z0-9, ]+")
_CRAFT = re.compile(r"craft (.*) using (.*)")
_GET = re.compile(r"get ([0-9]+) (.*)")
_COUNTED = re.compile(r"([0-9]+) (.*)")
_MAX_DIGITS = 9
"""A count of more digits is not a command; AgentGym has no limit."""


class _FailedError(Exception):
    """The command cannot be executed. The text is the observation."""


class PublishedTextCraft:
    """Plays one problem at a time."""

    def __init__(self, turn_limit: int) -> None:
        self._form = AgentGymForm()
        self._turn_limit = turn_limit
        self._workshop: Workshop | None = None
        self._turns = 0
        self._solved = False

    def reset(self, task: Task) -> Observation:
        """Set up the problem. Raises `TaskError` as `TextCraft.reset` does."""
        self._workshop = Workshop(task_problem(task))
        self._turns, self._solved = 0, False
        return self._seen(self._form.opening(self._workshop), self._workshop)

    def step(self, action: str) -> Step:
        """Execute the command in `action`. Raises `TaskError` before the first `reset`."""
        workshop = self._workshop
        if workshop is None:
            raise TaskError("textcraft: no task is set up; call reset first")
        over = self._solved or self._turns >= self._turn_limit
        self._turns += 1
        made, wellformed = "", not over
        try:
            text, made = ("The episode has ended.", "") if over else _execute(action, workshop)
        except _FailedError as error:
            text, wellformed = str(error), False
        solves = made == workshop.goal
        self._solved = self._solved or solves
        return Step(
            observation=self._seen(text, workshop),
            reward=1.0 if solves else 0.0,
            terminated=self._solved,
            truncated=not self._solved and self._turns >= self._turn_limit,
            wellformed=wellformed,
            success=self._solved,
            raw_score=1.0 if self._solved else 0.0,
            state=workshop.state(),
            achieved=(f"craft {self._form.item(made)}",) if made in workshop.askable else (),
        )

    def close(self) -> None:
        """Drop the problem."""
        self._workshop = None

    def _seen(self, text: str, workshop: Workshop) -> Observation:
        form = self._form
        return Observation(
            text=text,
            admissible=(
                *(form.get(item, count) for item, count in workshop.takings),
                *(
                    form.craft(recipe, spent, workshop)
                    for recipe, spent in workshop.possible()
                    if _recipe(recipe.makes, spent) is not None
                ),
                "inventory",
            ),
        )


def _execute(reply: str, workshop: Workshop) -> tuple[str, str]:
    """Execute the command in `reply`: the observation, and the item that it crafted or took."""
    command = _command(reply)
    if match := _CRAFT.match(command):
        return _craft(match[1], match[2], workshop)
    if match := _GET.match(command):
        return _get(_count(match[1]), match[2], workshop)
    if command.startswith("inventory"):
        held = "".join(f"[{item.replace('_', ' ')}] ({n}) " for item, n in workshop.held.items())
        return f"Inventory: {held or 'You are not carrying anything.'}", ""
    raise _FailedError(f"Could not execute {command}")


def _command(reply: str) -> str:
    """The command of a reply, as AgentGym's client extracts it. A reply without `Action:` is a
    command, so that decoding can be restricted to admissible actions; there it is empty."""
    found = _ACTION.findall(reply)
    if len(found) > 1:
        raise _FailedError(ONE_ACTION)
    return " ".join(_STRANGE.sub("", found[0] if found else reply).split())


def _get(count: int, words: str, workshop: Workshop) -> tuple[str, str]:
    item = words.replace(" ", "_")
    if item not in _raw_items():
        raise _FailedError(f"Could not find {words}")
    workshop.held[item] = workshop.held.get(item, 0) + count
    return f"Got {count} {words}", item


def _craft(product: str, ingredients: str, workshop: Workshop) -> tuple[str, str]:
    counted = _COUNTED.match(product)
    count, words = (_count(counted[1]), counted[2]) if counted else (1, product)
    item = words.replace(" ", "_")
    given: Counter[str] = Counter()
    for each in ingredients.split(","):
        match = _COUNTED.match(each.strip())
        if match is None:
            raise _FailedError(f"Wrong item format: {each.strip()}")
        given[match[2].replace(" ", "_")] += _count(match[1])
    held, tags = workshop.held, minecraft_book().tags
    if any(name in tags or held.get(name, -1) < n for name, n in given.items()):
        raise _FailedError(f"Could not find enough items to craft minecraft:{item}")
    recipe = _recipe(item, given)
    if recipe is None:
        # The words are those of AgentGym's Python objects.
        raise _FailedError(
            "Could not find a valid recipe for ItemTagWithCount(item_tag=ItemTag("
            f"tag=None, item_id='minecraft:{item}'), count={count})"
        )
    for name, spent in given.items():
        held[name] -= spent
        if not held[name]:
            del held[name]
    held[item] = held.get(item, 0) + recipe.count
    return f"Crafted {recipe.count} minecraft:{item}", item


def _recipe(item: str, given: Mapping[str, int]) -> Recipe | None:
    """The recipe that makes `item` of `given`. None: there is no such recipe, as where two members
    of a tag give the count of one ingredient together."""
    recipes = minecraft_book().by_item.get(item, ())
    return next((each for each in recipes if _matches(each, given)), None)


def _matches(recipe: Recipe, given: Mapping[str, int]) -> bool:
    """Whether `given` has one entry for each ingredient, with its count."""
    left = dict(given)
    for need, count in recipe.needs:
        members = minecraft_book().tags.get(need, (need,))
        name = next((each for each in left if each in members), None)
        if name is None or left.pop(name) != count:
            return False
    return not left


@cache
def _raw_items() -> frozenset[str]:
    book = minecraft_book()
    needs = {name for recipe in book.recipes for name, _ in recipe.needs}
    return frozenset(filter(book.is_raw, needs))


def _count(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise _FailedError(f"Could not execute a count of {len(digits)} digits")
    return int(digits)
