"""The programs that the sessions of a server share, and whether they run.

A server is ready when they have started, so that no session is sent to one whose browser or JVM
does not start. Once they have, a program that dies is started again by the next session.
"""

from __future__ import annotations

import asyncio
import logging

from agentrl_envs.env import StartsPrograms, TaskSet
from agentrl_envs.errors import OptionError, SessionError
from agentrl_envs.server.execution.executor import Executor

RETRY_S = 10.0
"""Seconds between two attempts: memory may become free, a program may be installed."""

LOG = logging.getLogger(__name__)


class Programs:
    """Starts the programs of one server."""

    def __init__(self, task_set: TaskSet, executor: Executor, *, retry_s: float = RETRY_S) -> None:
        self._executor = executor
        self._retry_s = retry_s
        self._tried = asyncio.Event()
        self.problem: str | None = None
        """Why no session can be opened; None: the programs have started, or there are none."""
        if isinstance(task_set, StartsPrograms):
            self.problem = "the programs of the environment are starting"
        else:
            self._tried.set()

    async def start(self) -> None:
        """Start the programs, again and again until they have started. Whatever prevents that is
        in `problem`."""
        while self.problem is not None:
            try:
                await self._executor.start_programs()
                self.problem = None
            except (OptionError, SessionError) as error:
                self.problem = str(error)
                LOG.warning("not ready: %s", error)
            except Exception as error:  # the environment's code may raise any class
                self.problem = f"the programs of the environment did not start: {error!r}"
                LOG.exception("not ready")
            self._tried.set()
            if self.problem is not None:
                await asyncio.sleep(self._retry_s)

    async def check(self) -> None:
        """Wait for the first attempt. Raises `SessionError` if the programs do not run."""
        await self._tried.wait()
        if self.problem is not None:
            raise SessionError(self.problem)
