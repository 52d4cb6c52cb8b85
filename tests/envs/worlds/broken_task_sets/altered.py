"""A corridor whose observations and steps are altered by functions."""

from collections.abc import Callable

from agentrl_envs.env import Observation, Step, Task, TaskSet
from agentrl_envs.environments.corridor import CorridorEnvironment, CorridorTasks

Violation = tuple[TaskSet, str, str]
"""(task set, name of the rule that it violates, words of the finding)."""


class AlteredEnvironment:
    """A corridor environment whose observations or steps are altered by a function."""

    def __init__(
        self,
        reset: Callable[[Observation, Task], Observation] = lambda seen, task: seen,
        step: Callable[[Step, str], Step] = lambda step, action: step,
    ) -> None:
        self.environment = CorridorEnvironment()
        self.alter_reset, self.alter_step = reset, step

    def reset(self, task: Task) -> Observation:
        return self.alter_reset(self.environment.reset(task), task)

    def step(self, action: str) -> Step:
        return self.alter_step(self.environment.step(action), action)

    def close(self) -> None:
        self.environment.close()


class AlteredTasks(CorridorTasks):
    """Corridor tasks whose steps are altered by `step`."""

    def __init__(self, step: Callable[[Step, str], Step]) -> None:
        super().__init__()
        self.alter = step

    def environment(self):
        return AlteredEnvironment(step=self.alter)
