"""What the episodes of an iteration say, in numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentrl_components.errors import RunError
from agentrl_components.trajectory.record import Ending, Trajectory


def played(episodes: Sequence[Trajectory]) -> list[Trajectory]:
    """Those that infrastructure did not take."""
    return [e for e in episodes if e.ending is not Ending.LOST]


def check_lost(
    episodes: Sequence[Trajectory],
    limit: float,
    *,
    prefix: str = "",
    of: str = "",
    some: bool = False,
) -> None:
    """Raises `RunError` where more than `limit`, a share, of `episodes` were lost; with `some`,
    also where none is left. `prefix` and `of` say in the message which episodes they are."""
    lost = [e for e in episodes if e.ending is Ending.LOST]
    none_left = some and lost and len(lost) == len(episodes)
    if none_left or len(lost) > limit * len(episodes):
        raise RunError(
            f"{prefix}{len(lost)} of {len(episodes)} episodes{of} were lost, more than "
            f"spec.rollout.maxLostShare allows; the last one: {lost[-1].note}"
        )


def groups(episodes: Sequence[Trajectory]) -> set[int]:
    """Numbers of the groups that hold an episode."""
    return {e.group for e in played(episodes)}


def measured(episodes: Sequence[Trajectory], silent: int) -> dict[str, float]:
    """The iteration's metrics; `silent` of its groups had nothing to compare."""
    kept = played(episodes)
    replies = [turn.wellformed for e in kept for turn in e.turns]
    scores = [[e.score for e in kept if e.group == group] for group in sorted(groups(episodes))]
    return {
        "train/success": mean([e.success for e in kept]),
        "train/score": mean([e.score for e in kept]),
        "train/turns": mean([len(e.turns) for e in kept]),
        "train/capped": mean([len(e.turns) >= e.max_turns and not e.success for e in kept]),
        "train/wellformed": mean(replies),
        "train/reward_std": mean([float(np.std(some)) for some in scores]),
        "train/silent_groups": float(silent),
        "train/episodes": float(len(kept)),
        "train/lost": float(len(episodes) - len(kept)),
        "train/tokens": float(sum(len(e.ids) for e in kept)),
        "train/environment_turns": float(len(replies)),
    }


def staleness(episodes: Sequence[Trajectory], version: int) -> float:
    """Updates between the weights that wrote a reply and `version`, the mean over replies."""
    return mean([version - turn.version for e in played(episodes) for turn in e.turns])


def mean(values: Sequence[float]) -> float:
    """The mean; 0 of nothing."""
    return float(np.mean(values)) if values else 0.0
