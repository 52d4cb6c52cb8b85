"""Which weights play an iteration: a pure function of the manifest and the history.

With `rollout.maxStaleness: s` the weights that play lag up to s updates behind those that learn, so
that iteration n can be played while iteration n - s is still being learnt from. The lag is the
schedule's and nobody's speed: the same seed plays the same episodes wherever it runs. It begins at
0 with every phase, after a rollback, and for each iteration that an alarm adds to a phase, and
grows by 1 an iteration. Policy k is the weights that k iterations of the run left. For s = 1 and
phases of 4 and 3 iterations:

    iteration   0  1  2  3 | 4  5  6
    policy      0  0  1  2 | 4  4  5
    lag         0  1  1  1 | 0  1  1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentrl_components.schedule.history import IterationRecord
from agentrl_components.schedule.horizon import position
from agentrl_components.schedule.learning_rate import total
from agentrl_components.spec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """The iterations that may be played before the next update."""

    number: int
    """The first of them, from 0: so many updates are done."""
    lag: int
    """Updates between the policy that plays it and the one that learns from it."""
    last: int
    """The last of them. Those after the first are a guess: where the phase ends early or is rolled
    back, they are dropped."""
    most: int
    """Where the lag stops growing."""

    def policy(self, number: int) -> int:
        """The policy that plays iteration `number`."""
        return number - min(self.most, self.lag + number - self.number)

    def plays(self) -> Iterator[tuple[int, int]]:
        """(iteration, policy), in order."""
        for number in range(self.number, self.last + 1):
            yield number, self.policy(number)


def ahead(spec: RunSpec, history: Sequence[IterationRecord], *, anew: bool = False) -> Ahead:
    """What may be played after the last record; `anew`: the lag begins again at 0."""
    at, done, most = position(spec.horizon, history), len(history), spec.rollout.max_staleness
    planned = spec.horizon.phases[at.phase].iterations - at.iteration_in_phase
    begins = anew or at.iteration_in_phase == 0 or planned <= 0
    more = min(most, planned - 1, total(spec) - done - 1)
    return Ahead(
        number=done,
        lag=0 if begins else min(most, history[-1].staleness + 1),
        last=done + max(0, more),
        most=most,
    )
