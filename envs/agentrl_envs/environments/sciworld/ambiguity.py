"""ScienceWorld's question which of several objects is meant.

    Ambiguous request: Please enter the number for the action you intended (or blank to cancel):
    0:	pick up flower pot 5 (in greenhouse)
    1:	pick up flower pot 3 (in greenhouse)

ScienceWorld's order of the options differs from one run of the same actions to the next. Here they
are sorted, so that a number means the same each time.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_QUESTION = "Ambiguous request:"
_OPTION = re.compile(r"^(\d+):\t(.+)$", re.MULTILINE)


class Question(NamedTuple):
    """The question, with its options sorted."""

    text: str
    numbers: tuple[str, ...]
    """ScienceWorld's number of each option, by ours."""
    options: tuple[str, ...]

    def command(self, reply: str) -> str:
        """ScienceWorld's number for one of ours; any other reply as it is."""
        number = int(reply) if reply.isdecimal() and len(reply) <= 3 else len(self.numbers)
        return self.numbers[number] if number < len(self.numbers) else reply

    def choice(self, command: str) -> str:
        """The number that a listed action means: of what is carried, unless it is picked up, and
        else the first."""
        taken = command.startswith("pick up ")

        def rank(option: tuple[str, str]) -> tuple[bool, str]:
            return ("in inventory" in option[0]) == taken, option[0]

        return min(zip(self.options, self.numbers, strict=True), key=rank)[1]


def question(answer: str) -> Question | None:
    """The question in ScienceWorld's answer; None: it is none."""
    if not answer.startswith(_QUESTION):
        return None
    found = sorted((option, number) for number, option in _OPTION.findall(answer))
    head = answer.partition("\n")[0]
    lines = (f"{at}:\t{option}" for at, (option, _) in enumerate(found))
    return Question(
        text="\n".join((head, *lines)),
        numbers=tuple(number for _, number in found),
        options=tuple(option for option, _ in found),
    )
