"""Reward shaping."""

from __future__ import annotations

from agentrl_components.spec.fields.algorithm import Reward


def shaped(score: float, turns: int, max_turns: int, reward_spec: Reward) -> float:
    """The score, reduced for every turn. Both terms are factors, so a score of 0 stays 0.

        score * (1 - turnPenalty * turns / maxTurns) * turnDiscount ** (turns - 1)

    Args:
        score: of the episode, in [0, 1].
        turns: number of replies; 0 if the episode ended before the first.
        max_turns: turn limit of the episode, at least 1.
    """
    penalty = 1.0 - reward_spec.turn_penalty * turns / max_turns
    discount = reward_spec.turn_discount ** max(turns - 1, 0)
    return score * penalty * discount
