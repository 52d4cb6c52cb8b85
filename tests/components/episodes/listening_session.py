"""A session that notes the actions that it is told, and the job of an episode in it."""

from __future__ import annotations

from agentrl_components.rollout.episode import Job
from agentrl_envs.env import Observation, Step, Task

JOB = Job(
    environment="e",
    instructions="",
    task=Task(id="t", category="", payload={}),
    group=0,
    sample=0,
    iteration=0,
)


class ListeningSession:
    """Ends after `steps` steps. `admissible` is listed in every state."""

    def __init__(self, steps: int, admissible: tuple[str, ...] | None = None) -> None:
        self.actions: list[str] = []
        self._steps = steps
        self._admissible = admissible

    async def reset(self, task: Task) -> Observation:
        del task
        return Observation(text="look", admissible=self._admissible)

    async def step(self, action: str) -> Step:
        self.actions.append(action)
        return Step(
            observation=Observation(text="look again", admissible=self._admissible),
            reward=0.0,
            terminated=len(self.actions) == self._steps,
            truncated=False,
            wellformed=True,
            success=False,
            raw_score=0.0,
        )

    async def close(self) -> None:
        return
