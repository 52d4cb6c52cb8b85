"""One TextCraft session."""

from __future__ import annotations

from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.environments.textcraft.crafting import Outcome, Workshop
from agentrl_envs.environments.textcraft.payload import task_problem
from agentrl_envs.environments.textcraft.reply_parser import (
    Command,
    Craft,
    Get,
    Look,
    read,
    unknown,
)
from agentrl_envs.environments.textcraft.text_form import Form
from agentrl_envs.errors import TaskError


class TextCraft:
    """Plays one problem at a time. The score is 1 once the goal item is in the inventory, else 0.

    `Step.achieved` holds the goal that the action made true (`craft stick`), for hindsight
    relabeling; never a goal of the other split.
    """

    def __init__(self, form: Form, turn_limit: int) -> None:
        self._form = form
        self._turn_limit = turn_limit
        self._workshop: Workshop | None = None
        self._turns = 0
        self._solved = False

    def reset(self, task: Task) -> Observation:
        """Set up the problem. Raises `TaskError` if the payload holds none or is not that of
        the task id."""
        self._workshop = Workshop(task_problem(task))
        self._turns = 0
        self._solved = False
        return self._seen(self._form.opening(self._workshop), self._workshop)

    def step(self, action: str) -> Step:
        """Execute the command in `action`. Raises `TaskError` before the first `reset`."""
        workshop = self._workshop
        if workshop is None:
            raise TaskError("textcraft: no task is set up; call reset first")
        self._turns += 1
        if self._solved:
            message = "The task is solved; there is nothing left to do."
            outcome = Outcome(kind="refused", message=message)
        elif self._turns > self._turn_limit:
            outcome = Outcome(kind="refused", message="The episode has ended: no turns are left.")
        else:
            outcome = self._execute(workshop, read(action))
        solves = outcome.kind in ("got", "crafted") and outcome.item == workshop.goal
        self._solved = self._solved or solves
        made = outcome.kind == "crafted" and outcome.item in workshop.askable
        return Step(
            observation=self._seen(self._form.telling(outcome, workshop), workshop),
            reward=1.0 if solves else 0.0,
            terminated=self._solved,
            truncated=not self._solved and self._turns >= self._turn_limit,
            wellformed=outcome.done,
            success=self._solved,
            raw_score=1.0 if self._solved else 0.0,
            state=workshop.state(),
            achieved=(f"craft {self._form.item(outcome.item)}",) if made else (),
        )

    def close(self) -> None:
        """Drop the problem."""
        self._workshop = None

    def _execute(self, workshop: Workshop, command: Command) -> Outcome:
        match command:
            case Get(item, None) if self._form.spells_out:
                return Outcome(kind="refused", message=unknown(f"get {item.replace('_', ' ')}"))
            case Get(item, count):
                return workshop.take(item, count or 1)
            case Craft(item, _, None) if self._form.spells_out:
                return Outcome(kind="refused", message=_unnamed(item))
            case Craft(item, count, given):
                return workshop.craft(item, count, given)
            case Look():
                return Outcome(kind="inventory")
            case _:
                return Outcome(kind="refused", message=command.message)

    def _seen(self, text: str, workshop: Workshop) -> Observation:
        form = self._form
        return Observation(
            text=text,
            admissible=(
                *(form.get(item, count) for item, count in workshop.takings),
                *(form.craft(recipe, spent, workshop) for recipe, spent in workshop.possible()),
                *form.looks(),
            ),
        )


def _unnamed(item: str) -> str:
    words = item.replace("_", " ")
    return (
        f"Could not execute craft {words[:80]}: name the ingredients as the crafting command does,"
        f" e.g. craft stick using 2 planks."
    )
