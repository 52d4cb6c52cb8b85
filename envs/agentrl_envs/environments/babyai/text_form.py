"""What a text form of BabyAI must offer. There are two: `terse` and `agentgym`."""

from __future__ import annotations

from typing import Protocol

from agentrl_envs.environments.babyai.actions import Refusal, Sight
from agentrl_envs.environments.babyai.field_of_view import Thing


class TextForm(Protocol):
    """Words for what is seen, and the way back from a reply to an action."""

    take: str
    """The verb for picking something up, as it stands on the menu."""
    extra: tuple[str, ...]
    """Valid actions that only ask for words: they change nothing."""

    def instructions(self) -> str:
        """What an agent is told once. May be empty."""
        ...

    def vocabulary(self) -> tuple[str, ...] | None:
        """Every word, or None when there is no closed list."""
        ...

    def name(self, thing: Thing) -> str:
        """What a thing is called in actions, without its number."""
        ...

    def goal(self, mission: str) -> str:
        """minigrid's mission in the words of this form."""
        ...

    def first(self, goal: str, seen: Sight) -> str:
        """The first observation."""
        ...

    def later(self, seen: Sight, ended: str) -> str:
        """An observation after an action. `ended`: `done`, `failed` or empty."""
        ...

    def refused(self, seen: Sight, action: str, why: Refusal) -> str:
        """An observation after a reply that holds no valid action."""
        ...

    def parse(self, reply: str) -> str | Refusal:
        """The action that a reply holds, in the spelling of the menu. Never raises."""
        ...

    def relabel(self, observation: str, goal: str) -> str:
        """A first observation with another goal. Raises `TaskError` when it holds none."""
        ...
