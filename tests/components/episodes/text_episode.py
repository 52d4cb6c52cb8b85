"""Trajectories given by the texts of their turns; the token ids are placeholders."""

import numpy as np

from agentrl_components.trajectory.record import Ending, Trajectory, Turn


def episode(*turns, success=False, ending=Ending.TRUNCATED, note=""):
    """A trajectory. Each turn is a tuple (observation, action, reward, wellformed)."""
    return Trajectory(
        environment="babyai",
        task="aa",
        category="UnlockPickup",
        group=0,
        sample=0,
        iteration=-1,
        ids=np.arange(3 * len(turns), dtype=np.int32),
        mask=np.array([False, True, True] * len(turns)),
        logprobs=np.zeros(3 * len(turns), np.float32),
        allowed=None,
        turns=tuple(
            Turn(
                start=3 * index + 1,
                end=3 * index + 3,
                reward=reward,
                wellformed=wellformed,
                action=action,
                observation=observation,
                version=1,
            )
            for index, (observation, action, reward, wellformed) in enumerate(turns)
        ),
        ending=ending,
        score=float(success),
        raw_score=float(success),
        success=success,
        max_turns=2,
        note=note,
    )
