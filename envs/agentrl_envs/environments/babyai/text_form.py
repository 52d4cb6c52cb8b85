"""Interface of BabyAI's text forms. There are two: `terse` and `agentgym`."""

from __future__ import annotations

from typing import Protocol

from agentrl_envs.environments.babyai.actions import Refusal, Sight
from agentrl_envs.environments.babyai.field_of_view import Thing


class TextForm(Protocol):
    """Renders observations as text and parses replies."""

    take: str
    """The verb for picking up, as it appears on the menu."""
    extra: tuple[str, ...]
    """Valid actions that change nothing and only return text."""

    def instructions(self) -> str:
        """The system prompt. May be empty."""
        ...

    def vocabulary(self) -> tuple[str, ...] | None:
        """The closed vocabulary; None: open."""
        ...

    def name(self, thing: Thing) -> str:
        """The name of a thing in actions, without its number."""
        ...

    def goal(self, mission: str) -> str:
        """minigrid's mission in this form's wording."""
        ...

    def first(self, goal: str, seen: Sight) -> str:
        """The first observation."""
        ...

    def later(self, seen: Sight, ended: str) -> str:
        """An observation after an action. `ended`: `done`, `failed` or empty."""
        ...

    def refused(self, seen: Sight, action: str, why: Refusal) -> str:
        """An observation after a reply without a valid action."""
        ...

    def parse(self, reply: str) -> str | Refusal:
        """The action in a reply, as spelled on the menu. Never raises."""
        ...

    def relabel(self, observation: str, goal: str) -> str:
        """A first observation with another goal. Raises `TaskError` if it contains no goal."""
        ...
