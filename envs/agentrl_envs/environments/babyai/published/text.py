"""AgentGym's observations, word for word, and its reading of replies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from agentrl_envs.environments.babyai.published.sight import Seen, Sight
from agentrl_envs.errors import TaskError

GOAL = "Your goal: "
COMPLETED = "\n The task is completed."
ONE_ACTION = "Error: Only one 'Action' is allowed per response. Please adjust your response."
_ACTION = re.compile(r"Action:\s*([^\n]*)")
_STRANGE = re.compile(r"[^A-Za-z0-9, ]+")


def read(reply: str, offered: Iterable[str]) -> str | None:
    """The action of a reply in lower case; empty if it has none, None if it has several.

    A reply without `Action:` has none, but for one extension: a reply that is an action of the
    menu and nothing else is that action, so that decoding can be restricted to the menu.
    """
    found = _ACTION.findall(reply)
    if len(found) > 1:
        return None
    if not found:
        return reply if reply in offered else ""
    return " ".join(_STRANGE.sub("", found[0]).split()).lower()


def goal(mission: str) -> str:
    """minigrid's mission without its order: "then" and "after you" become "and"."""
    return mission.replace("then", "and").replace("after you", "and")


def first(mission: str, sight: Sight) -> str:
    """The first observation, without the menu."""
    return f"{GOAL}{goal(mission)}\n{description(sight)}"


def relabeled(observation: str, mission: str) -> str:
    """A first observation with another goal. Raises `TaskError` if it holds none."""
    head, newline, rest = observation.partition("\n")
    if not newline or not head.startswith(GOAL):
        raise TaskError(f"observation: holds no goal: {observation[:80]!r}; give a first one")
    return f"{GOAL}{goal(mission)}\n{rest}"


def with_menu(text: str, plans: Iterable[str]) -> str:
    """An observation followed by the actions offered."""
    listed = ", ".join(f'"{action}"' for action in plans)
    return f"{text}\nAvailable actions: [{listed}]"


def listing(plans: Iterable[str]) -> str:
    """The answer to `check available actions`."""
    return "You can take the following actions: " + ", ".join(plans)


def description(sight: Sight) -> str:
    """What is in view, the nearest barrier and what is carried."""
    text = "You cannot see any objects within sight."
    if not sight.empty:
        numbers: Counter[str] = Counter()
        text = "In front of you in this room, you can see several objects: "
        for each in sight.things:
            numbers[each.name] += 1
            text += f"There is a {each.name} {numbers[each.name]} {_place(each)}  "
    text += "The room has walls around you. "
    if sight.barrier is not None:
        steps, kind = sight.barrier
        text += f"You are facing a {kind} {steps} steps away. "
    if sight.load is None:
        return text + "You are not carrying anything."
    return text + f"You are carrying a {sight.load.color} {sight.load.type}."


def _place(each: Seen) -> str:
    if each.right == 0:
        return f"right in front of you {each.ahead} steps away."
    side = "right" if each.right > 0 else "left"
    return f"{each.ahead} steps in front of you and {abs(each.right)} steps to your {side}."
