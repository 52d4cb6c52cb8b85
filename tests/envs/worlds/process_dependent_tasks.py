"""Task sets that behave differently in another process, which can import this module."""

import os

from agentrl_envs.environments.corridor import CorridorTasks


class HashSeedOrder(CorridorTasks):
    """Tasks in the iteration order of a set, a defect of AgentGym."""

    def __init__(self) -> None:
        super().__init__()
        for split, tasks in self._tasks.items():
            order = list({task.id for task in tasks})
            self._tasks[split] = sorted(tasks, key=lambda task: order.index(task.id))


class RaisesInOtherProcesses(CorridorTasks):
    def __init__(self, pid: int = 0) -> None:
        super().__init__()
        if pid not in (0, os.getpid()):
            raise KeyError("only here")
