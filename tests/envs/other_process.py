"""Task sets that are otherwise in another process; a module that another process can import."""

import os

from agentrl_envs.environments.corridor import CorridorTasks


class HashSeedOrder(CorridorTasks):
    """Upstream's defect: tasks in the order of a set."""

    def __init__(self) -> None:
        super().__init__()
        for split, tasks in self._tasks.items():
            order = list({task.id for task in tasks})
            self._tasks[split] = sorted(tasks, key=lambda task: order.index(task.id))


class RaisesElsewhere(CorridorTasks):
    def __init__(self, pid: int = 0) -> None:
        super().__init__()
        if pid not in (0, os.getpid()):
            raise KeyError("only here")
