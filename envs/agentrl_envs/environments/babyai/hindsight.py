"""Goals that an action achieved, for hindsight relabeling (Andrychowicz et al. 2017,
arXiv 1707.01495).

A random episode that ends with the red ball in hand is a demonstration for the goal "pick up the
red ball". The goals are phrased as the missions of the levels are.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from agentrl_envs.environments.babyai.actions import GO_TO, OPEN_THROUGH, TAKE, Plan

_BOTH, _KIND, _COLOR = "{color} {kind}", "{kind}", "{color} object"

_PICKUP_FORMS = {
    "PickupDist": (_BOTH, _KIND, _COLOR),
    "PickupLoc": (_BOTH, _KIND),
    "SynthLoc": (_BOTH, _KIND),
    "FindObjS5": (_KIND,),
    "OneRoomS8": (_KIND,),
}
"""How a level (minigrid's class) names what to pick up, if not by colour and kind."""

_OPEN_FORMS = {"UnlockLocal": (_KIND,)}
"""The same for doors to open."""


def achieved(
    game: Any, plan: Plan, was_open: bool, at_reset: Counter[tuple[str, str]]
) -> list[str]:
    """Goals that the action made true, phrased as missions; the level's most specific form first.

    Only actions on an object count. `at_reset` counts the objects at the start of the episode by
    kind and colour: as in minigrid, the article is "a" if several match, else "the". Walls count as
    grey objects, as in minigrid.
    """
    level, it = type(game).__name__, plan.it
    if plan.verb == TAKE and game.carrying is it:
        return _phrases("pick up", it, _PICKUP_FORMS.get(level, (_BOTH,)), at_reset)
    if plan.verb in ("toggle", OPEN_THROUGH) and it.type == "door" and it.is_open and not was_open:
        return _phrases("open", it, _OPEN_FORMS.get(level, (_BOTH,)), at_reset)
    if plan.verb == GO_TO and game.grid.get(*game.front_pos) is it:
        return _phrases("go to", it, (_BOTH,), at_reset)
    return []


def _phrases(
    verb: str, it: Any, forms: tuple[str, ...], at_reset: Counter[tuple[str, str]]
) -> list[str]:
    result = []
    for form in forms:
        fitting = sum(
            number
            for (kind, color), number in at_reset.items()
            if (kind == it.type or form == _COLOR) and (color == it.color or form == _KIND)
        )
        article = "a" if fitting > 1 else "the"
        result.append(f"{verb} {article} {form.format(color=it.color, kind=it.type)}")
    return result
