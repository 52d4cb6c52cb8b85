"""What runs the environments of a server, off its event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from agentrl_envs.env import Observation, Step, Task, TaskSet

TaskSetFactory = Callable[[], TaskSet]
"""Creates the task set. Must be picklable for `ProcessExecutor`: a module-level function or a
`functools.partial` of one."""


class Executor(Protocol):
    """Runs sessions. Calls of one session must be sequential."""

    async def start_programs(self) -> None:
        """Start the programs that sessions share, in each process that runs sessions. Raises
        `OptionError` if one does not start, `SessionError` if the process dies."""
        ...

    async def reset(self, session: str, task: Task) -> Observation: ...

    async def step(self, session: str, action: str) -> Step: ...

    async def release(self, session: str) -> None:
        """The session is over; its environment may be reused."""
        ...

    def discard(self, session: str) -> None:
        """The session failed, or its last call was abandoned; its environment must not be reused.
        Does not wait for a call that is still running."""
        ...

    @property
    def limits_calls(self) -> bool:
        """Whether it ends calls that take too long itself. Their time then begins when they are
        made, not when they are requested."""
        ...

    @property
    def problem(self) -> str | None:
        """Why sessions cannot be run now; None: they can."""
        ...

    async def close(self) -> None:
        """Close every environment and stop the threads or processes."""
        ...
