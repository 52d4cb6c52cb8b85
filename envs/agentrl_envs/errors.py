"""Errors at the boundary to an environment.

    WorldError
    ├── TaskError             the task does not belong to this environment    the user's mistake
    ├── ContractError         the environment violates the contract           the author's mistake
    ├── CodeError             the code of the environment raised an error     the author's mistake
    └── SessionError          the session was lost                            try another session
        ├── UnreachableError  no answer: the server is down or gone           try another server
        └── CapacityError     no session is free                              wait, then retry

    OptionError               the name or an option of an environment is wrong    the user's mistake

A bad reply of the agent is never an error: the environment answers it with an observation.
"""

from __future__ import annotations


class WorldError(Exception):
    """Base class of every error at this boundary."""


class TaskError(WorldError):
    """The task cannot be set up here. The message names the field, the reason and the fix."""


class ContractError(WorldError):
    """The environment gave an answer that the contract does not allow. The message names the call
    and the value."""


class CodeError(WorldError):
    """The code of an environment raised an error that the contract does not know. The message names
    the environment, the error and where it was raised, and has the frames of that code."""


class SessionError(WorldError):
    """The session was lost through no fault of the agent. Its episode is recorded as lost, never
    scored 0."""


class UnreachableError(SessionError):
    """The server gave no answer."""


class CapacityError(SessionError):
    """The server is full. `retry_after_s`: seconds after which to ask again."""

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class OptionError(ValueError):
    """The name or an option of an environment is wrong. One line per error: field, reason, fix."""
