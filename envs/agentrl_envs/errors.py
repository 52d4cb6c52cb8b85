"""What can go wrong at the boundary to a world.

    WorldError
    ├── TaskError             the task is not one of this environment's       the user's mistake
    ├── ContractError         the environment breaks the contract             the author's mistake
    └── SessionError          the session is gone                             try another session
        ├── UnreachableError  nothing answers: the server is down or gone     try another server
        └── CapacityError     no session is free now                          wait, then try again

Never raised for what an agent wrote: a bad reply is an observation.
"""

from __future__ import annotations


class WorldError(Exception):
    """Anything at this boundary."""


class TaskError(WorldError):
    """The task cannot be set up here. Names the field, the reason and the fix."""


class ContractError(WorldError):
    """The environment answered what the contract does not allow. Names the call and the value."""


class SessionError(WorldError):
    """The session was lost through no fault of the agent. The episode is `lost`, never scored 0."""


class UnreachableError(SessionError):
    """No answer came from the server."""


class CapacityError(SessionError):
    """The server is full. `retry_after_s` says when to ask again."""

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
