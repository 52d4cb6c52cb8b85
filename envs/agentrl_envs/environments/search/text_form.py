"""Interface of the text forms of deep search. There are two: `terse` and `agentgym`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agentrl_envs.environments.search.payload import Question
from agentrl_envs.environments.search.retrieval.retriever import Document


@dataclass(frozen=True, slots=True)
class Search:
    """Search for `query`."""

    query: str


@dataclass(frozen=True, slots=True)
class Answer:
    """End the episode with `text`."""

    text: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A reply without a valid action; `message` tells the agent why."""

    message: str


Command = Search | Answer | Refused


@dataclass(slots=True, kw_only=True)
class Progress:
    """What happened in an episode so far."""

    question: Question
    turns: int = 0
    searches: list[str] = field(default_factory=list)
    found: dict[Document, None] = field(default_factory=dict)
    """Documents found, in order, without repeats."""
    over: bool = False
    solved: bool = False


class TextForm(Protocol):
    """Renders observations and parses replies."""

    def instructions(self) -> str:
        """The system prompt. May be empty."""
        ...

    def vocabulary(self) -> tuple[str, ...] | None:
        """The closed vocabulary; None: open."""
        ...

    def opening(self, question: Question) -> str:
        """The first observation."""
        ...

    def admissible(self, progress: Progress) -> tuple[str, ...] | None:
        """The valid actions; None: not listed."""
        ...

    def parse(self, reply: str, progress: Progress) -> Command:
        """The command in a reply. Never raises."""
        ...

    def results(self, documents: Sequence[Document]) -> str:
        """The observation after a search."""
        ...

    def verdict(self, correct: bool, guesses_on: bool) -> str:
        """The observation after an answer. `guesses_on`: a wrong one does not end the episode."""
        ...

    def achieved(self, progress: Progress, answer: str) -> tuple[str, ...]:
        """Goals that the answer reached, for `relabel`."""
        ...

    def relabel(self, opening: str, goal: str) -> str:
        """The first observation with another goal. Raises `TaskError` for another text."""
        ...
