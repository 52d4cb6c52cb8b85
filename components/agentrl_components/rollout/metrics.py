"""Metrics of the episodes of an iteration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agentrl_components.errors import RunError
from agentrl_components.spec.fields.algorithm import Reward
from agentrl_components.trajectory.record import Ending, Trajectory
from agentrl_components.update.advantages.reward import shaped


def completed(episodes: Sequence[Trajectory]) -> list[Trajectory]:
    """The episodes that were not lost to infrastructure."""
    return [e for e in episodes if e.ending is not Ending.LOST]


def check_lost(
    episodes: Sequence[Trajectory],
    limit: float,
    *,
    prefix: str = "",
    of: str = "",
    require_some: bool = False,
) -> None:
    """Check the share of lost episodes. Raises `RunError` if it exceeds `limit`, or, with
    `require_some`, if all were lost. `prefix` and `of` name the episodes in the message.
    Environments that are down do not count."""
    down = down_environments(episodes)
    episodes = [e for e in episodes if e.environment not in down]
    lost = [e for e in episodes if e.ending is Ending.LOST]
    all_lost = require_some and lost and len(lost) == len(episodes)
    if all_lost or len(lost) > limit * len(episodes):
        raise RunError(
            f"{prefix}{len(lost)} of {len(episodes)} episodes{of} were lost, more than "
            f"spec.rollout.maxLostShare allows; the last one: {lost[-1].note}"
        )


def down_environments(episodes: Sequence[Trajectory]) -> frozenset[str]:
    """Environments that lost every episode while another one did not."""
    played = {e.environment for e in episodes}
    up = {e.environment for e in completed(episodes)}
    return frozenset(played - up) if up else frozenset()


def completed_groups(episodes: Sequence[Trajectory]) -> set[int]:
    """Numbers of the groups with at least one completed episode."""
    return {e.group for e in completed(episodes)}


def training_metrics(
    episodes: Sequence[Trajectory], silent_groups: int, reward_spec: Reward
) -> dict[str, float]:
    """The `train/...` metrics of an iteration. `silent_groups`: groups without a learning signal,
    because all their episodes earned the same reward. `reward_spec`: how rewards are shaped."""
    kept = completed(episodes)
    replies = [turn.wellformed for e in kept for turn in e.turns]
    groups = sorted(completed_groups(episodes))
    rewards = [
        [shaped(e.score, len(e.turns), e.max_turns, reward_spec) for e in kept if e.group == group]
        for group in groups
    ]
    return {
        "train/success": mean([e.success for e in kept]),
        "train/score": mean([e.score for e in kept]),
        "train/turns": mean([len(e.turns) for e in kept]),
        "train/capped": mean([len(e.turns) >= e.max_turns and not e.success for e in kept]),
        "train/wellformed": mean(replies),
        "train/reward_std": mean([float(np.std(group)) for group in rewards]),
        "train/silent_groups": float(silent_groups),
        "train/episodes": float(len(kept)),
        "train/out_of_tokens": mean([e.out_of_tokens for e in kept]),
        "train/lost": float(len(episodes) - len(kept)),
        "train/tokens": float(sum(len(e.ids) for e in kept)),
        "train/sampled_tokens": float(sum(e.num_sampled for e in kept)),
        "train/environment_turns": float(len(replies)),
    }


def environment_metrics(episodes: Sequence[Trajectory], names: Sequence[str]) -> dict[str, float]:
    """The `train/<environment>/...` metrics of a run with several environments, else none. An
    environment that is down has no episodes, and only this number."""
    metrics: dict[str, float] = {}
    for name in names if len(names) > 1 else ():
        kept = [e for e in completed(episodes) if e.environment == name]
        metrics[f"train/{name}/episodes"] = float(len(kept))
        if kept:
            metrics |= {
                f"train/{name}/success": mean([e.success for e in kept]),
                f"train/{name}/score": mean([e.score for e in kept]),
                f"train/{name}/turns": mean([len(e.turns) for e in kept]),
                f"train/{name}/max_turns": float(kept[0].max_turns),
                f"train/{name}/wellformed": mean([t.wellformed for e in kept for t in e.turns]),
            }
    return metrics


def staleness(episodes: Sequence[Trajectory], version: int) -> NDArray[np.int64]:
    """[S] updates between the weights that sampled a token and `version`, for each sampled token of
    all completed episodes."""
    versions = [e.versions for e in completed(episodes)]
    versions_S: NDArray[np.int64] = np.concatenate([np.empty(0, dtype=np.int64), *versions])
    return version - versions_S


def mean(values: Sequence[float] | NDArray[np.int64]) -> float:
    """The arithmetic mean; 0 for an empty sequence."""
    return float(np.mean(values)) if len(values) else 0.0
