"""Tasks that are numbers: AgentGym's data ids, OpenEnv's and Gymnasium's seeds.

Such a server says nothing about the content of a task, so a task's id is the hash of its number and
its split is what the user's ranges say, in place of the hash.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

from agentrl_envs.env import Split, Task, content_id, in_split
from agentrl_envs.errors import OptionError, TaskError

MAX_NUMBER = 2**31 - 1
MAX_NUMBERS = 10_000_000
"""Numbers of one split."""

_RANGES = re.compile(r"\d{1,10}(-\d{1,10})?(,\d{1,10}(-\d{1,10})?)*")


def parse_ranges(field: str, text: str) -> tuple[range, ...]:
    """The ranges in a text such as `0-30,140-180,500`, both ends included. Raises `OptionError`."""
    compact = text.replace(" ", "")
    if _RANGES.fullmatch(compact) is None:
        raise OptionError(f"{field}: {text!r} is not a list of ranges such as 0-30,140-180,500")
    ranges = []
    for part in compact.split(","):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if high < low or high > MAX_NUMBER:
            raise OptionError(f"{field}: {part} is not a range of numbers up to {MAX_NUMBER}")
        ranges.append(range(low, high + 1))
    if sum(map(len, ranges)) > MAX_NUMBERS:
        raise OptionError(f"{field}: has more than {MAX_NUMBERS} numbers; use smaller ranges")
    return tuple(ranges)


class NumberedTasks:
    """Deals the numbers of the ranges of a split, in their order."""

    def __init__(
        self,
        name: str,
        ranges: dict[Split, tuple[range, ...]],
        category: Callable[[int], str] | None = None,
    ) -> None:
        """`category`: the category of a number. Raises `OptionError` if a number is in both
        splits, or twice in one."""
        self.name = name
        self._ranges = ranges
        self._category = category or (lambda number: name)
        every = sorted(
            (one for given in ranges.values() for one in given), key=lambda one: one.start
        )
        for one, other in pairwise(every):
            if other.start < one.stop:
                raise OptionError(
                    f"heldout: {other.start} is in two ranges of train and heldout; name each "
                    "number once"
                )

    def size(self, split: Split) -> int:
        return sum(map(len, self._ranges[split]))

    def task(self, split: Split, index: int) -> Task:
        index %= self.size(split)
        for one in self._ranges[split]:
            if index < len(one):
                return self._task(one[index], split)
            index -= len(one)
        raise AssertionError("the index is below the size")

    def number(self, task: Task) -> int:
        """The number of one of these tasks. Raises `TaskError` for any other task."""
        number = task.payload.get("number")
        if (
            isinstance(number, int)
            and not isinstance(number, bool)
            and set(task.payload) == {"number"}
        ):
            for split, ranges in self._ranges.items():
                if any(number in one for one in ranges) and task == self._task(number, split):
                    return number
        raise TaskError(
            f"task {task.id}: is not a task of {self.name}; use one of the train and heldout ranges"
        )

    def _task(self, number: int, split: Split) -> Task:
        identity = in_split(content_id(self.name, {"number": number}), split)
        return Task(id=identity, category=self._category(number), payload={"number": number})
