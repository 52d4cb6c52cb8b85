"""Actors that live, and work on calls, but get no further; and what they note meanwhile."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentrl_components.errors import WorkersLostError
from agentrl_components.ray_workers.calls.results import check_ray, outcomes, ready_ones, results
from agentrl_components.spec import RunSpec

LOG = logging.getLogger(__name__)
SILENT_S = 1800.0
"""How long an actor may get no further, but for the time in which it waits for environments: longer
than any reply takes. Trainers wait longer for each other (`sharded.rank.TIMEOUT`)."""
ASK_S = 60.0
"""How often actors are asked."""
ANSWER_S = 10.0
"""How long they may take to answer."""


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


@dataclass(slots=True)
class _Seen:
    """How far an actor has got, and when it was first seen there."""

    actor: Any
    done: int | None
    since: float


class SilenceWatch:
    """Finds silent actors, whose method `progress` returns a `Progress`. Their notes go to the log
    of this process: nobody looks at those of actors while a run stands still."""

    def __init__(
        self, silent_s: float = SILENT_S, ask_s: float = ASK_S, answer_s: float = ANSWER_S
    ) -> None:
        self.silent_s, self.ask_s, self._answer_s = silent_s, ask_s, answer_s
        self._seen: dict[int, _Seen] = {}
        self._asked_at = time.monotonic()

    @property
    def death(self) -> WorkersLostError:
        """The error of calls of a silent actor."""
        return WorkersLostError(f"a process of the run has sampled nothing for {self.silent_s:g} s")

    def outcomes(self, actors: Mapping[int, Any], calls: Mapping[int, Any]) -> dict[int, Any]:
        """The results of calls of `actors`, by place, with a `WorkersLostError` for each whose
        actor is silent, has died or could not be reached. Raises what `outcomes` of Ray's calls
        raises."""
        found: dict[int, Any] = {}
        waiting, began = dict(calls), time.monotonic()
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
        began = time.monotonic()

        def check(waiting: Sequence[Any]) -> None:
            left = [place for place, call in enumerate(calls) if call in waiting]
            if self.silent(dict(enumerate(actors)), dict.fromkeys(left, began)):
                raise self.death

        return results([*calls, *others], check)

    def silent(self, actors: Mapping[int, Any], began: Mapping[int, float]) -> list[int]:
        """The places of the actors that work on calls and have got no further, or have not
        answered, for `silent_s`. Asks them, unless that was done in the last `ask_s`. `began`: the
        places of these actors, and when the oldest call of each was made. The time before it does
        not count."""
        now = time.monotonic()
        if not began or now - self._asked_at < self.ask_s:
            return []
        self._asked_at = now
        for place, done in self._answers({place: actors[place] for place in began}).items():
            seen = self._seen.get(place)
            if seen is None or seen.actor is not actors[place] or seen.done != done:
                self._seen[place] = _Seen(actors[place], done, now)
        self._seen = {place: one for place, one in self._seen.items() if place in began}
        return [
            place
            for place, one in self._seen.items()
            if now - max(one.since, began[place]) > self.silent_s
        ]

    def _answers(self, actors: Mapping[int, Any]) -> dict[int, int | None]:
        """How far each actor has got. One that does not answer is where it was seen last."""
        import ray
        from ray.exceptions import RayError

        check_ray()
        calls = {place: actor.progress.remote() for place, actor in actors.items()}
        ray.wait(list(calls.values()), num_returns=len(calls), timeout=self._answer_s)
        answers: dict[int, int | None] = {}
        for place, call in calls.items():
            seen = self._seen.get(place)
            try:
                answer: Progress = ray.get(call, timeout=0)
            except RayError:  # its calls fail too, or it does not answer in time
                answers[place] = seen.done if seen is not None else None
                continue
            answers[place] = answer.done
            for note in answer.notes:
                LOG.warning("sampler-%d: %s", place, note)
        return answers
