"""Options of the `miniwob` environment."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

STARTER = (
    "click-button",
    "click-checkboxes",
    "click-option",
    "enter-text",
    "login-user",
)
"""Pages whose elements have roles and whose instruction names what is to be clicked or typed."""


class MiniWobOptions(BaseModel):
    """Options of the `miniwob` environment."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    tasks: Annotated[tuple[str, ...], Field(min_length=1)] = STARTER
    """Names of MiniWoB++'s pages, such as `click-checkboxes`. The default are five that a small
    model can learn."""
    text: Literal["agentgym", "terse"] = "terse"
    """WebArena's observation and actions as AgentGym words them, or a few words and a list of
    actions, for small models."""
    seeds: Annotated[int, Field(ge=10, le=10_000)] = 300
    """Seeds of each page from which its tasks are drawn; tasks of the same content count once."""
    heldout: Annotated[int, Field(ge=1, le=1_000)] = 20
    """Largest number of held-out tasks of each page."""
    turn_limit: Annotated[int, Field(ge=1, le=1000)] = 20
    """Turns after which the environment truncates an episode. MiniWoB++'s own limit of ten seconds
    is not used: it would grade the speed of the model."""
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 30.0
    """Seconds after which an action loses the session."""

    @field_validator("tasks")
    @classmethod
    def _distinct(cls, tasks: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(tasks)) < len(tasks):
            raise ValueError("a page is named twice")
        return tasks
