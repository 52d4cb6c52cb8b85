"""The samplers of a hand-over whose calls may fail one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from agentrl_components.errors import WorkersLostError
from agentrl_components.ray_workers.calls.silence import SilenceWatch


class Receivers:
    """The samplers of a hand-over. One that a call did not reach, or that is silent, gets no
    further call."""

    def __init__(self, samplers: Sequence[Any], watch: SilenceWatch | None = None) -> None:
        self._samplers, self._hand_over = samplers, uuid4().hex
        self._watch = watch or SilenceWatch()
        self.lost: dict[int, WorkersLostError] = {}
        """Why a call did not reach them, by the index of the sampler."""

    def call(self, method: str, *arguments: object) -> dict[int, Any]:
        """Call a method of each, with the name of the hand-over first. Returns the calls by the
        index of the sampler."""
        return self.call_each(method, dict.fromkeys(range(len(self._samplers)), arguments))

    def call_each(self, method: str, arguments: Mapping[int, Sequence[object]]) -> dict[int, Any]:
        """As `call`, with arguments of its own for each sampler, by its index."""
        return {
            place: getattr(sampler, method).remote(self._hand_over, *arguments[place])
            for place, sampler in enumerate(self._samplers)
            if place not in self.lost
        }

    def results(self, calls: Mapping[int, Any]) -> dict[int, Any]:
        """Wait for calls. Returns the results of those that reached their sampler, by its index."""
        found = self._watch.outcomes(dict(enumerate(self._samplers)), calls)
        lost = {place: one for place, one in found.items() if isinstance(one, WorkersLostError)}
        self.lost = lost | self.lost
        return {place: one for place, one in found.items() if place not in lost}

    def bytes_loaded(self, calls: Mapping[int, Any]) -> int:
        """Wait for calls of `load`. Returns the bytes that each sampler has loaded: the same for
        all that were reached, 0 if none was."""
        return max(self.results(calls).values(), default=0)
