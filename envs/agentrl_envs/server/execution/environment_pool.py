"""The environments of one process, used again by one session after another."""

from __future__ import annotations

from agentrl_envs.env import Environment, Observation, Step, Task, TaskSet, start_programs
from agentrl_envs.errors import SessionError


class EnvironmentPool:
    """The environments of one process, by session. Calls of one session must be sequential; calls
    of different sessions may overlap."""

    def __init__(self, task_set: TaskSet) -> None:
        self._task_set = task_set
        self._in_use: dict[str, Environment] = {}
        self._free: list[Environment] = []

    def start_programs(self) -> None:
        """Start the programs that the environments share. Raises `OptionError` if one does not
        start."""
        start_programs(self._task_set)

    def reset(self, session: str, task: Task) -> Observation:
        """Set up the task, in a free or new environment if the session has none yet."""
        environment = self._in_use.get(session)
        if environment is None:
            environment = self._free.pop() if self._free else self._task_set.environment()
            self._in_use[session] = environment
        return environment.reset(task)

    def step(self, session: str, action: str) -> Step:
        """Take one action. Raises `SessionError` for an unknown session."""
        environment = self._in_use.get(session)
        if environment is None:
            raise SessionError(f"session {session!r} is not in this process")
        return environment.step(action)

    def release(self, session: str) -> None:
        """Keep the session's environment for another session."""
        environment = self._in_use.pop(session, None)
        if environment is not None:
            self._free.append(environment)

    def discard(self, session: str) -> None:
        """Close the session's environment, which failed and must not be reused."""
        environment = self._in_use.pop(session, None)
        if environment is not None:
            environment.close()

    def close(self) -> None:
        """Close every environment."""
        for session in list(self._in_use):
            self.discard(session)
        for environment in self._free:
            environment.close()
        self._free.clear()
