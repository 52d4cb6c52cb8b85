"""Actors that live, and work on calls, but get no further; and what they note meanwhile."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentrl_components.errors import WorkersLostError
from agentrl_components.ray_workers.calls.results import check_ray, outcomes, ready_ones, results
from agentrl_components.spec import RunSpec

LOG = logging.getLogger(__name__)
SILENT_S = 1800.0
"""How long an actor may make no progress, not counting the time in which it waits for environments:
longer than any reply takes. Trainers wait longer for each other: `sharded.process_group.TIMEOUT`.
"""
ASK_S = 60.0
"""How often actors are asked."""
ANSWER_S = 10.0
"""How long they may take to answer."""
MISSED_CHECKS = 3
"""After so many intervals `ask_s` without a question, the progress of the actors in between is
unknown. While somebody waits for their calls, questions are up to two intervals apart."""


def playing_s(spec: RunSpec) -> float:
    """Seconds for which an actor that plays episodes may get no further. Between two replies it may
    wait for a step, and for the reset of the next episode."""
    return SILENT_S + 2 * max(one.timeout_s for one in spec.environments)


class Progress(NamedTuple):
    """What an actor answers."""

    done: int
    """A number that grows with its work."""
    notes: tuple[str, ...] = ()
    """Warnings since it was asked last, such as that an environment hangs."""


Ask = Callable[[Mapping[int, Any], float], Mapping[int, Progress]]
"""Asks actors by place, and waits some seconds. Returns the answers of those that gave one."""


def ask_actors(actors: Mapping[int, Any], limit_s: float) -> dict[int, Progress]:
    """Call `progress` of actors of Ray, as `Ask` says. Raises what `check_ray` raises."""
    import ray
    from ray.exceptions import RayError

    check_ray()
    calls = {place: actor.progress.remote() for place, actor in actors.items()}
    ray.wait(list(calls.values()), num_returns=len(calls), timeout=limit_s)
    answers: dict[int, Progress] = {}
    for place, call in calls.items():
        with suppress(RayError):  # its calls fail too, or it does not answer in time
            answers[place] = ray.get(call, timeout=0)
    return answers


@dataclass(slots=True)
class _Seen:
    """How far an actor has got, and since when it has been there as far as anybody watched."""

    actor: Any
    done: int | None
    since: float


class SilenceWatch:
    """Finds silent actors, whose method `progress` returns a `Progress`. Their notes go to the log
    of this process: nobody looks at those of actors while a run stands still."""

    def __init__(
        self,
        silent_s: float = SILENT_S,
        ask_s: float = ASK_S,
        clock: Callable[[], float] = time.monotonic,
        ask: Ask = ask_actors,
    ) -> None:
        self.silent_s, self.ask_s = silent_s, ask_s
        self.now, self._ask = clock, ask
        self._seen: dict[int, _Seen] = {}
        self._asked_at = self.now()

    @property
    def death(self) -> WorkersLostError:
        """The error of calls of a silent actor."""
        return WorkersLostError(f"a process of the run has sampled nothing for {self.silent_s:g} s")

    def outcomes(self, actors: Mapping[int, Any], calls: Mapping[int, Any]) -> dict[int, Any]:
        """The results of calls of `actors`, by place, with a `WorkersLostError` for each whose
        actor is silent, has died or could not be reached. Raises what `outcomes` of Ray's calls
        raises."""
        found: dict[int, Any] = {}
        waiting, began = dict(calls), self.now()
        while waiting:
            ready = ready_ones(list(waiting.values()), limit_s=self.ask_s)
            for place in [place for place, call in waiting.items() if call in ready]:
                (found[place],) = outcomes([waiting.pop(place)])
            for place in self.silent(actors, dict.fromkeys(waiting, began)):
                found[place] = self.death
                del waiting[place]
        return {place: found[place] for place in calls}

    def results(
        self, actors: Sequence[Any], calls: Sequence[Any], others: Sequence[Any] = ()
    ) -> list[Any]:
        """The results of one call of each of `actors`, and of `others`, whose actors are not
        watched. Raises what `results` of Ray's calls raises, and `WorkersLostError` as soon as an
        actor is silent."""
        began = self.now()

        def check(waiting: Sequence[Any]) -> None:
            left = [place for place, call in enumerate(calls) if call in waiting]
            if self.silent(dict(enumerate(actors)), dict.fromkeys(left, began)):
                raise self.death

        return results([*calls, *others], check)

    def silent(self, actors: Mapping[int, Any], began: Mapping[int, float]) -> list[int]:
        """The places of the actors that work on calls and have got no further, or have not
        answered, for `silent_s`. Asks them, unless that was done in the last `ask_s`. `began`: the
        places of these actors, and when (by `now`) the oldest call of each was made. The time
        before it does not count. Nor does time in which nobody asked, for an actor that does not
        answer the first question after it: that it got no further is not known."""
        now = self.now()
        if not began or now - self._asked_at < self.ask_s:
            return []
        unwatched = now - self._asked_at > MISSED_CHECKS * self.ask_s
        self._asked_at = now
        answers = self._answers({place: actors[place] for place in began})
        for place in began:
            seen = self._seen.get(place)
            if seen is None or seen.actor is not actors[place]:
                self._seen[place] = _Seen(actors[place], answers.get(place), now)
            elif place not in answers:
                seen.since = now if unwatched else seen.since
            elif seen.done != answers[place]:
                seen.done, seen.since = answers[place], now
        self._seen = {place: one for place, one in self._seen.items() if place in began}
        return [
            place
            for place, one in self._seen.items()
            if now - max(one.since, began[place]) > self.silent_s
        ]

    def _answers(self, actors: Mapping[int, Any]) -> dict[int, int]:
        """How far each actor that answers has got."""
        answers = self._ask(actors, ANSWER_S)
        for place, answer in answers.items():
            for note in answer.notes:
                LOG.warning("sampler-%d: %s", place, note)
        return {place: answer.done for place, answer in answers.items()}
