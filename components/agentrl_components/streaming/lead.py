"""How far samplers play ahead of the trainers."""

from __future__ import annotations

from dataclasses import dataclass

WAITED_SHARE = 0.05
"""Share of an iteration's time. Trainers that wait longer for groups need samplers further ahead.
"""


@dataclass(slots=True)
class Lead:
    """The number of updates beyond the next one for which groups are started: the fewest that keep
    the trainers busy, at least 1, and at most `most`, which is `rollout.maxStaleness`.

    Groups that were completed long before they are learnt from are older than they need to be. So
    the lead shrinks while the groups of a whole further update wait already, and grows when the
    trainers had to wait."""

    most: int
    updates: int = 1

    def __post_init__(self) -> None:
        self.updates = min(self.updates, self.most)

    def follow(self, *, waited_share: float, spare_updates: float) -> None:
        """Adapt to an iteration. `waited_share` is the share of its time in which trainers waited
        for groups; `spare_updates` is the number of updates for which completed groups are left,
        now that those of the next one were taken."""
        if waited_share > WAITED_SHARE:
            self.updates = min(self.most, self.updates + 1)
        elif spare_updates >= 1:
            self.updates = max(min(1, self.most), self.updates - 1)
