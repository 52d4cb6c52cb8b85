"""Which policy plays an iteration: a pure function of the manifest and the history.

With `rollout.maxStaleness: s` the policy that plays may be up to s updates older than the policy
that learns, so iteration n can be played while iteration n - s is still being trained. The lag is
fixed by the schedule, not by how fast either side is: the same seed plays the same episodes
wherever the run executes. The lag restarts at 0 with every phase, after a rollback, and for each
iteration that a `hold` alarm adds to a phase, and grows by 1 per iteration. Policy k is the policy
after k iterations of the run. For s = 1 and phases of 4 and 3 iterations:

    iteration   0  1  2  3 | 4  5  6
    policy      0  0  1  2 | 4  4  5
    lag         0  1  1  1 | 0  1  1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentrl_components.schedule.horizon import position, total_iterations
from agentrl_components.schedule.record import IterationRecord
from agentrl_components.spec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayWindow:
    """The iterations that may be played before the next update."""

    number: int
    """First iteration of the window, from 0; equals the number of updates done."""
    lag: int
    """Updates between the policy that plays the first iteration and the one that learns from it."""
    last: int
    """Last iteration of the window. Those after the first are speculative: if the phase ends early
    or is rolled back, their episodes are dropped."""
    max_lag: int
    """The lag at which it stops growing (`rollout.maxStaleness`)."""

    def policy(self, number: int) -> int:
        """The policy that plays iteration `number`."""
        return number - min(self.max_lag, self.lag + number - self.number)

    def iterations(self) -> Iterator[tuple[int, int]]:
        """Pairs (iteration, policy), in order."""
        for number in range(self.number, self.last + 1):
            yield number, self.policy(number)


def play_window(
    spec: RunSpec, history: Sequence[IterationRecord], *, restart_lag: bool = False
) -> PlayWindow:
    """What may be played after the last record. `restart_lag`: begin again at a lag of 0."""
    at, done, max_lag = position(spec.horizon, history), len(history), spec.rollout.max_staleness
    planned = spec.horizon.phases[at.phase].iterations - at.iteration_in_phase
    restarts = restart_lag or at.iteration_in_phase == 0 or planned <= 0
    more = min(max_lag, planned - 1, total_iterations(spec.horizon) - done - 1)
    return PlayWindow(
        number=done,
        lag=0 if restarts else min(max_lag, history[-1].staleness + 1),
        last=done + max(0, more),
        max_lag=max_lag,
    )
