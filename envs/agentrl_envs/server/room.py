"""A room: the environments of one process, in use and to be used again."""

from __future__ import annotations

from agentrl_envs.env import Environment, Observation, Step, Task, TaskSet
from agentrl_envs.errors import SessionError


class Room:
    """Sessions by id. Calls of one session must come one by one; different sessions may overlap."""

    def __init__(self, task_set: TaskSet) -> None:
        self._task_set = task_set
        self._playing: dict[str, Environment] = {}
        self._free: list[Environment] = []

    def reset(self, session: str, task: Task) -> Observation:
        """Open the session if it is not, and set the task up."""
        environment = self._playing.get(session)
        if environment is None:
            environment = self._free.pop() if self._free else self._task_set.environment()
            self._playing[session] = environment
        return environment.reset(task)

    def step(self, session: str, action: str) -> Step:
        """One action. Raises `SessionError` for a session that is not here."""
        environment = self._playing.get(session)
        if environment is None:
            raise SessionError(f"session {session!r} is not in this process")
        return environment.step(action)

    def release(self, session: str) -> None:
        """Keep the session's environment for the next one."""
        environment = self._playing.pop(session, None)
        if environment is not None:
            self._free.append(environment)

    def discard(self, session: str) -> None:
        """Close the session's environment: it failed, and is not to be used again."""
        environment = self._playing.pop(session, None)
        if environment is not None:
            environment.close()

    def close(self) -> None:
        """Close every environment."""
        for environment in (*self._playing.values(), *self._free):
            environment.close()
        self._playing.clear()
        self._free.clear()
