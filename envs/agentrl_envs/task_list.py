"""A finite list of tasks, dealt by content: most of a `TaskSet` for an environment of one's own.

class DialTasks(TaskList):
    name = "dial"

    def __init__(self, largest: int = 9) -> None:
        numbers = range(largest + 1)
        super().__init__({"start": a, "target": b} for a in numbers for b in numbers if a != b)

    def instructions(self) -> str: ...
    def environment(self) -> Environment: ...
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from agentrl_envs.env import Split, Task, content_id, split_of
from agentrl_envs.errors import OptionError, TaskError

T = TypeVar("T")


def interleaved(groups: Sequence[Sequence[T]]) -> list[T]:
    """The members of all groups in one list, of which every prefix has each group in about its
    share of the whole. Members of a group keep their order."""
    placed = (
        ((place + 0.5) / len(group), number, member)
        for number, group in enumerate(groups)
        for place, member in enumerate(group)
    )
    return [member for _, _, member in sorted(placed, key=lambda one: one[:2])]


class TaskList:
    """Tasks from their contents. The hash of a content decides its split. A subclass sets `name`
    and implements `instructions` and `environment`."""

    name: str

    def __init__(self, payloads: Iterable[Mapping[str, Any]]) -> None:
        """`payloads`: the content of each task, as JSON. Equal contents are one task. Raises
        `OptionError` if there are so few that a split is empty."""
        self._by_id: dict[str, Task] = {}
        for payload in payloads:
            content = dict(payload)
            task = Task(
                id=content_id(self.name, content), category=self.category(content), payload=content
            )
            self._by_id.setdefault(task.id, task)
        self._splits: dict[Split, list[Task]] = {"train": [], "heldout": []}
        for task_id, task in self._by_id.items():
            self._splits[split_of(task_id)].append(task)
        if not all(self._splits.values()):
            raise OptionError(
                f"{self.name}: {len(self._by_id)} tasks leave a split without one; give more tasks"
            )

    def category(self, payload: Mapping[str, Any]) -> str:
        """The category under which success in this task is reported."""
        del payload
        return self.name

    def content(self, task: Task) -> Mapping[str, Any]:
        """The content of one of these tasks. Raises `TaskError` for any other task."""
        known = self._by_id.get(task.id)
        if known is None or known.payload != dict(task.payload):
            raise TaskError(
                f"task {task.id}: is not a task of {self.name} with these options; use one that it "
                "deals"
            )
        return known.payload

    def size(self, split: Split) -> int:
        return len(self._splits[split])

    def task(self, split: Split, index: int) -> Task:
        tasks = self._splits[split]
        return tasks[index % len(tasks)]

    def vocabulary(self) -> tuple[str, ...] | None:
        """None: open. Every word that texts contain lets `model.source: tiny` train from
        scratch."""
        return None
