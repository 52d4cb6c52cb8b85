"""The state of each session, copied when it is first changed.

A session is a browser context: its cookie `site_state` names its state. A context that has changed
nothing has no such cookie and sees a seeded content, so a new context is a reset. Logging in is
no change of state, so the cookies that a login leaves can be given to any number of contexts."""

from __future__ import annotations

import secrets
from collections import OrderedDict

from agentrl_envs.environments.web_sites.state import State, seeded

COOKIE = "site_state"

CAPACITY = 4096
"""States that are kept. A state takes about 20 kB."""


class LostStateError(Exception):
    """The state of a session is not there: the server was restarted, or the state was dropped as
    the one that was unused for longest."""


class Sessions:
    """States by id. Used by one thread."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._states: OrderedDict[str, State] = OrderedDict()

    def read(self, key: str | None, seed: int) -> State:
        """The state of a session, not to be changed: the content of `seed` if it has changed
        nothing. Raises `LostStateError` if it is gone."""
        if key is None:
            return seeded(seed)
        try:
            self._states.move_to_end(key)
        except KeyError:
            raise LostStateError(key) from None
        return self._states[key]

    def write(self, key: str | None, seed: int) -> tuple[str, State]:
        """The id and the state of a session that is about to be changed: a new copy of the content
        of `seed` if the session has none. Raises `LostStateError` if it is gone."""
        if key is not None:
            return key, self.read(key, seed)
        new = secrets.token_urlsafe(16)
        self._states[new] = seeded(seed).copy()
        if len(self._states) > self._capacity:
            self._states.popitem(last=False)
        return new, self._states[new]
