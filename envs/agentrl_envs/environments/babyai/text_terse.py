"""Terse text form for small models: a closed vocabulary without punctuation other than `;`.

    goal open the door ; see locked purple door 1 4 ahead 2 right ; wall 4 ahead ; carry purple key

The first number after a name distinguishes objects of one name, nearest first; other numbers are
steps. The reply is the action itself. An error comes before the observation.
"""

from __future__ import annotations

from agentrl_envs.environments.babyai.actions import MAX_SAME_NAME, TAKE, Refusal, Sight
from agentrl_envs.environments.babyai.field_of_view import Thing
from agentrl_envs.errors import TaskError

_REFUSED = {
    Refusal.UNKNOWN: "unknown",
    Refusal.SEVERAL: "unknown",
    Refusal.NO_WAY: "no way",
    Refusal.NO_KEY: "no key",
    Refusal.WRONG_KEY: "no key",
    Refusal.CLOSED: "closed",
    Refusal.BLOCKED: "blocked",
    Refusal.NO_ROOM: "blocked",
    Refusal.EMPTY_HANDED: "carry nothing",
    Refusal.FULL: "no carry",
    Refusal.NO_CHANGE: "no change",
}

_WORDS = (
    "; goal see wall carry nothing ahead left right open closed locked "
    "red green blue purple yellow grey ball box key door object "
    "turn move forward drop toggle go to pick up through and "
    "the a put next on your in front of behind you then after "
    "done failed unknown no way blocked change"
)


class Terse:
    """The `terse` text form."""

    take: str = TAKE
    extra: tuple[str, ...] = ()

    def instructions(self) -> str:
        return ""

    def vocabulary(self) -> tuple[str, ...]:
        return (*_WORDS.split(), *(str(number) for number in range(1, MAX_SAME_NAME + 1)))

    def name(self, thing: Thing) -> str:
        return f"{thing.color} {thing.kind}"

    def goal(self, mission: str) -> str:
        return mission.replace(",", "")

    def first(self, goal: str, seen: Sight) -> str:
        return f"goal {goal} ; {_state(seen)}"

    def later(self, seen: Sight, ended: str) -> str:
        return f"{ended} ; {_state(seen)}" if ended else _state(seen)

    def refused(self, seen: Sight, action: str, why: Refusal) -> str:
        return f"{_REFUSED[why]} ; {_state(seen)}"

    def parse(self, reply: str) -> str:
        action = " ".join(reply.split())
        return f"{TAKE} {action[7:]}" if action.startswith("pickup ") else action

    def relabel(self, observation: str, goal: str) -> str:
        head, semicolon, seen = observation.partition(" ; ")
        if not semicolon or not head.startswith("goal "):
            raise TaskError(f"observation: holds no goal: {observation[:80]!r}; give a first one")
        return f"goal {self.goal(goal)} ; {seen}"


def _state(seen: Sight) -> str:
    view = seen.view
    parts = [
        f"{thing.state} {label}{_place(thing)}" if thing.state else f"{label}{_place(thing)}"
        for thing, label in zip(view.things, seen.labels, strict=True)
        if label
    ] or ["nothing"]
    if view.wall_ahead is not None:
        parts.append(f"wall {view.wall_ahead} ahead")
    if view.load is not None:
        parts.append(f"carry {view.load.color} {view.load.type}")
    return "see " + " ; ".join(parts)


def _place(thing: Thing) -> str:
    ahead = f" {thing.ahead} ahead" if thing.ahead else ""
    if thing.side == 0:
        return ahead
    return f"{ahead} {abs(thing.side)} {'right' if thing.side > 0 else 'left'}"
