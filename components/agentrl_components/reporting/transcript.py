"""An episode as text: observation, action and reward of every turn."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict

from agentrl_components.trajectory.record import Ending, Trajectory
from agentrl_envs.output.printable import clean


class Move(BaseModel):
    """One turn."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    observation: str
    action: str
    reward: float
    wellformed: bool


class Replay(BaseModel):
    """One episode, with printable texts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    environment: str
    category: str
    task: str
    success: bool
    score: float
    ending: Ending
    max_turns: int
    note: str
    moves: tuple[Move, ...]

    @property
    def outcome(self) -> str:
        """How the episode ended, such as `solved in 3 turns`."""
        turns = len(self.moves)
        took = f"{turns} turn{'' if turns == 1 else 's'}"
        if self.success:
            return f"solved in {took}"
        if self.ending is Ending.LOST:
            return f"lost after {took}: the environment failed, not the agent"
        if self.ending is Ending.TRUNCATED:
            limit = (
                "the turn limit" if turns >= self.max_turns else self.note or "a limit was reached"
            )
            return f"not solved in {took}, {limit}"
        return f"failed after {took}: the environment ended the episode"


def replay(episode: Trajectory) -> Replay:
    """The replay of a trajectory."""
    return Replay(
        environment=episode.environment,
        category=episode.category,
        task=episode.task,
        success=episode.success,
        score=episode.score,
        ending=episode.ending,
        max_turns=episode.max_turns,
        note=clean(episode.note),
        moves=tuple(
            Move(
                observation=clean(turn.observation),
                action=clean(turn.action),
                reward=turn.reward,
                wellformed=turn.wellformed,
            )
            for turn in episode.turns
        ),
    )


def lines(played: Replay, width: int = 80, longest: int = 600) -> Iterator[str]:
    """The episode as lines of at most `width` characters.

    Of an observation or an action with more than `longest` characters, only both ends are shown."""
    for number, move in enumerate(played.moves, 1):
        yield from _hanging(f"{number:>3}  ", "     ", fold(move.observation, longest), width)
        yield from _hanging("  →  ", "     ", fold(move.action, longest) + _remark(move), width)
    yield from _hanging("  =  ", "     ", played.outcome, width)


def fold(text: str, longest: int) -> str:
    """`text`, with its middle left out if it has more than `longest` characters."""
    if len(text) <= longest:
        return text
    head, tail = longest * 2 // 3, longest // 3
    omitted = len(text) - head - tail
    return f"{text[:head].rstrip()} … ({omitted:,} characters) … {text[-tail:].lstrip()}"


def _remark(move: Move) -> str:
    remarks = [f"reward {move.reward:+.3g}"] if move.reward else []
    remarks += [] if move.wellformed else ["no valid action"]
    return f"   ({', '.join(remarks)})" if remarks else ""


def _hanging(first: str, rest: str, text: str, width: int) -> Iterator[str]:
    for index, line in enumerate(text.splitlines() or [""]):
        yield from textwrap.wrap(
            line,
            max(width, 20),
            initial_indent=first if index == 0 else rest,
            subsequent_indent=rest,
            break_on_hyphens=False,
        ) or ([first.rstrip()] if index == 0 else [])
