"""AgentGym's servers, family by family: what is sent, and how an answer is read.

There are two dialects. In one a session is `id` and answers hold the observation; in the other it
is `env_idx`, and the first observation is fetched. Where AgentGym's client changes a reply before
it is sent, the same is done here: its servers expect it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentrl_envs.http.received import parse_json

ONE_ACTION = "Error: only one Action is allowed in a reply. Please correct your reply."
NO_FENCE = "There is no action in the reply. Put one action between triple backticks (```)."


class RefusalError(ValueError):
    """AgentGym's client answers this reply itself; the text is the observation."""


def action_line(reply: str) -> str:
    """The line after `Action:`, with letters, digits, commas and spaces only; a reply of one line
    without `Action:` is the action."""
    found = re.findall(r"Action:\s*(.*?)(?=\n|$)", reply, re.DOTALL)
    if len(found) > 1:
        raise RefusalError(ONE_ACTION)
    text = found[0] if found else "" if "\n" in reply.strip() else reply
    return " ".join(re.sub(r"[^A-Za-z0-9, ]+", "", text).split())


def last_action(reply: str) -> str:
    """What follows the last `Action:`; a reply without it is the action."""
    return reply.rpartition("Action:")[2].strip()


def fenced(reply: str) -> str:
    """The whole reply. It must have an action between triple backticks."""
    if re.search(r"```(.*?)```", reply, re.DOTALL) is None:
        raise RefusalError(NO_FENCE)
    return reply


def whole(reply: str) -> str:
    """The whole reply."""
    return reply


def unit_score(answer: Mapping[str, Any]) -> float:
    """The reward of the last step: in AgentGym it is the score of the episode."""
    return float(answer["reward"])


def percent_score(answer: Mapping[str, Any]) -> float:
    """`score`, from -100 to 100."""
    return float(answer["score"]) / 100


def final_score(answer: Mapping[str, Any]) -> float:
    """The reward where the episode has ended: before, WebArena's rewards mean nothing."""
    return float(answer["reward"]) if answer["terminated"] else 0.0


def listed_menu(answer: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The actions in the last line of a BabyAI observation."""
    _, mark, menu = str(answer.get("observation", "")).rpartition("Available actions: ")
    try:
        actions = parse_json(menu) if mark else None
    except ValueError:
        return None
    return _texts(actions)


def given_menu(answer: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The actions in `available_actions`."""
    return _texts(answer.get("available_actions"))


def no_menu(answer: Mapping[str, Any]) -> tuple[str, ...] | None:
    del answer
    return None


def _texts(actions: object) -> tuple[str, ...] | None:
    if not isinstance(actions, list):
        return None
    texts = [each for each in actions if isinstance(each, str) and each.strip()]
    return tuple(dict.fromkeys(texts)) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One kind of AgentGym server."""

    name: str
    instructions: str
    """What the agent is told; AgentGym's own prompts are in its client."""
    greeting: str | None = None
    """Part of the answer of `GET /` that tells this family from others."""
    key: str = "id"
    """Name of the session's number."""
    path: str = ""
    create: Mapping[str, Any] | None = None
    """Body of `POST /create`."""
    number: str = "data_idx"
    """Name of the task's number in `POST /reset`."""
    reset: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of `POST /reset`."""
    opening: tuple[str, ...] | None = ("observation",)
    """Fields of the answer of `/reset` that are the first observation, one a line. None: it is
    what `GET /observation` answers."""
    observation: str = "observation"
    done: str = "done"
    read: Callable[[str], str] = last_action
    """What is sent for a reply. Raises `RefusalError`."""
    score: Callable[[Mapping[str, Any]], float] = unit_score
    raw: str = "reward"
    """The field with the score in the server's own unit."""
    solved: float = 1.0
    """The score from which a task is solved. 0: any score above 0."""
    menu: Callable[[Mapping[str, Any]], tuple[str, ...] | None] = no_menu
    refusals: tuple[str, ...] = ()
    """What an observation contains if the reply had no valid action."""
    late_success: bool = False
    """A score above 0 ends the episode, whatever `done` says."""
    step_limit: bool = False
    """The server ends an episode at its step limit and says no more than `done`."""
    category: Callable[[int], str] | None = None
    train: str | None = None
    heldout: str | None = None
    """The published numbers of a split, as `numbered_tasks.parse_ranges` reads them."""


REACT = "Reply with your thought and one action, as\nThought: <thought>\n\nAction: <action>"

_BABYAI_LEVELS = (*range(11), 18, 19, 20, 29, 30, 32, 35)


def _babyai(seeds: range) -> str:
    return ",".join(str(40 * seed + level) for seed in seeds for level in _BABYAI_LEVELS)


FAMILIES = {
    family.name: family
    for family in (
        Family(
            name="babyai",
            greeting="BabyAI",
            instructions=f"Reach the goal; each observation lists the valid actions. {REACT}",
            read=action_line,
            solved=0.0,
            menu=listed_menu,
            late_success=True,
            category=lambda number: f"level-{number % 40 + 1}",
            train=_babyai(range(45)),
            heldout=_babyai(range(45, 50)),
        ),
        Family(
            name="textcraft",
            greeting="TextCraft",
            instructions="Craft the goal with the commands shown: get <count> <item>, inventory, "
            f"craft <count> <item> using <count> <item>, ... {REACT}",
            create={"commands": None, "goal": None},
            read=action_line,
            refusals=("Could not execute", "Wrong item format", "Could not find"),
            train="31-139,181-419,445-532,536-543",
            heldout="0-30,140-180,420-444,533-535",
        ),
        Family(
            name="sciworld",
            greeting="ScienceWorld",
            instructions=f"Carry out the experiment that the task describes. {REACT}",
            opening=("task_description", "observation"),
            score=percent_score,
            raw="score",
            refusals=("No known action matches", "Unknown action"),
            step_limit=True,
        ),
        Family(
            name="searchqa",
            instructions="Think in <think>...</think>, search with <search>query</search>, and "
            "answer with <answer>answer</answer>.",
            key="env_idx",
            create={"id": 0},
            number="id",
            opening=None,
            read=whole,
            refusals=("Your previous action is invalid",),
        ),
        Family(
            name="webarena",
            instructions="Carry out the objective in the browser. Reply with one action between "
            "triple backticks (```), such as ```click [12]``` or ```stop [answer]```.",
            key="env_idx",
            number="idx",
            reset={"seed": 0},
            opening=None,
            done="terminated",
            read=fenced,
            score=final_score,
            refusals=(NO_FENCE,),
        ),
        Family(
            name="alfworld",
            greeting="AlfWorld",
            instructions=f"Carry out the household task. {REACT}",
            number="game",
            reset={"world_type": "Text"},
            menu=given_menu,
            refusals=("Nothing happens",),
        ),
        Family(
            name="webshop",
            instructions=f"Buy the product: search[words] or click[element]. {REACT}",
            key="env_idx",
            number="session_id",
            opening=None,
            observation="state",
        ),
        Family(
            name="maze",
            greeting="LMRL-Gym",
            instructions=f"Reach the goal: move up, move down, move left, move right. {REACT}",
            path="/maze",
            number="game",
        ),
        Family(
            name="wordle",
            instructions="Guess the word of five letters, such as s h i r e. Feedback: g is right, "
            f"y is elsewhere in the word, b is not in it. {REACT}",
            path="/wordle",
            number="seed",
            refusals=("invalid word",),
        ),
        Family(
            name="sqlgym",
            instructions="Answer with one SQL statement:\nThought: <thought>\n\n"
            "Action: ```sql\n<statement>\n```",
            key="env_idx",
            number="item_id",
            opening=None,
            observation="state",
            read=whole,
        ),
        Family(
            name="tool",
            instructions="Reply as Thought: <thought>\n\nAction: <tool> with Action Input: <JSON>",
            key="env_idx",
            create={"id": 0},
            number="id",
            opening=None,
            read=whole,
            refusals=("Format error",),
        ),
    )
}
"""`tool` is any of the servers weather, movie, academia, todo and sheet."""
