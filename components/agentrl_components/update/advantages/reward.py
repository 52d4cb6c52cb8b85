"""What an episode's score is worth to the learner."""

from __future__ import annotations

from agentrl_components.spec.fields.algorithm import Reward


def shaped(score: float, turns: int, max_turns: int, reward_spec: Reward) -> float:
    """The score, less for every turn it took: both shapings are factors, so 0 stays 0.

        score * (1 - turnPenalty * turns / maxTurns) * turnDiscount ** (turns - 1)

    Args:
        score: of the episode, in [0, 1].
        turns: replies it took; 0 where it was cut before the first.
        max_turns: the horizon it was played at, at least 1.
    """
    penalty = 1.0 - reward_spec.turn_penalty * turns / max_turns
    discount = reward_spec.turn_discount ** max(turns - 1, 0)
    return score * penalty * discount
