"""An episode of two turns with measured durations."""

import numpy as np

from agentrl_components.trajectory.record import Ending, Trajectory, Turn


def episode(sample: int = 0) -> Trajectory:
    return Trajectory(
        environment="babyai",
        task="babyai-0123456789abcdef",
        category="GoToLocal",
        group=4,
        sample=sample,
        iteration=3,
        ids=np.arange(9, dtype=np.int32),
        mask=np.array([0, 0, 0, 1, 1, 0, 0, 1, 0], dtype=np.bool_),
        logprobs=np.array([0, 0, 0, -1, -0.5, 0, 0, -0.25, 0], dtype=np.float32),
        allowed=None,
        turns=(
            Turn(
                start=3,
                end=5,
                reward=0.0,
                wellformed=True,
                action="go to red ball",
                observation="You see a red ball",
                version=2,
                started_s=0.5,
                duration_s=0.25,
            ),
            Turn(
                start=7,
                end=9,
                reward=0.5,
                wellformed=False,
                action="ünknown",
                observation="You stand before it",
                version=3,
                started_s=1.0,
                duration_s=2.0,
            ),
        ),
        ending=Ending.TERMINATED,
        score=0.5,
        raw_score=0.5,
        success=True,
        max_turns=6,
    )
