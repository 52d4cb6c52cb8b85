"""Corridor tasks whose calls raise an error of their own."""

from copy import copy

from agentrl_envs.env import Observation, Split, Step, Task
from agentrl_envs.environments.corridor import CorridorEnvironment, CorridorTasks


class RaisingTasks(CorridorTasks):
    """The action `raise` raises `error`, and so does the call of this `name` (`reset`, `task`,
    `start_programs`), if one is given."""

    def __init__(self, error: Exception, name: str = "") -> None:
        super().__init__()
        self.error = error
        self.raises = name

    def start_programs(self) -> None:
        self._raise_in("start_programs")

    def task(self, split: Split, index: int) -> Task:
        self._raise_in("task")
        return super().task(split, index)

    def environment(self):
        tasks = self

        class RaisingEnvironment(CorridorEnvironment):
            def reset(self, task: Task) -> Observation:
                tasks._raise_in("reset")
                return super().reset(task)

            def step(self, action: str) -> Step:
                if action == "raise":
                    raise copy(tasks.error)  # each with the frames of its own call
                return super().step(action)

        return RaisingEnvironment()

    def _raise_in(self, name: str) -> None:
        if name == self.raises:
            raise copy(self.error)
