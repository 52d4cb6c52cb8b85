"""What an agent is shown, before it is put into words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from agentrl_envs.browser.accessibility import Element
from agentrl_envs.browser.actions import Action
from agentrl_envs.browser.view import View
from agentrl_envs.env import Observation

NOTHING = "None"
"""WebArena's word for the action before the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The state of an episode in front of the agent."""

    intent: str
    phrases: tuple[str, ...]
    """Parts of the intent that may have to be typed."""
    sites: tuple[str, ...]
    """Names of the task's sites."""
    wants_answer: bool
    """Whether the task is graded by the answer that `stop` gives."""
    view: View
    url: str
    """Public address of the current tab."""
    previous: str
    """The action before, as it was spelled; `NOTHING` at the start."""

    @property
    def is_first(self) -> bool:
        """Whether nothing was done yet."""
        return self.previous == NOTHING

    @property
    def elements(self) -> tuple[Element, ...]:
        return self.view.elements


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a reply holds no action."""

    message: str


class TextForm(Protocol):
    """Renders scenes as text and parses replies. There are two: `terse` and `agentgym`."""

    def instructions(self) -> str:
        """The system prompt. May be empty."""
        ...

    def vocabulary(self) -> tuple[str, ...] | None:
        """The closed vocabulary; None: open."""
        ...

    def observation(self, scene: Scene, menu: Mapping[str, Action], message: str) -> Observation:
        """The scene in words. `message`: what the agent is told about its last reply."""
        ...

    def menu(self, scene: Scene) -> Mapping[str, Action]:
        """The actions that are offered, by their spelling; empty: actions are not listed."""
        ...

    def parse(self, reply: str, menu: Mapping[str, Action]) -> Action | Refusal:
        """The action in a reply. Never raises."""
        ...
