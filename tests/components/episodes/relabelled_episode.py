"""Short trajectories for the tests of the warm start."""

import numpy as np

from agentrl_components.trajectory.record import Ending, Trajectory, Turn


def turn(start, end, achieved=()):
    return Turn(
        start=start,
        end=end,
        reward=0.0,
        wellformed=True,
        action="go",
        observation="door",
        version=-1,
        achieved=achieved,
    )


def episode(turns):
    ids = np.arange(10, dtype=np.int32)
    mask = np.zeros(10, dtype=bool)
    mask[[3, 7]] = True
    return Trajectory(
        environment="corridor",
        task="t",
        category="c",
        group=0,
        sample=0,
        iteration=-1,
        ids=ids,
        mask=mask,
        logprobs=np.zeros(10, dtype=np.float32),
        allowed=None,
        turns=turns,
        ending=Ending.TRUNCATED,
        score=0.0,
        raw_score=0.0,
        success=False,
        max_turns=2,
    )
