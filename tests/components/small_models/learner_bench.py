"""A learner with a tiny model, and episodes to train on."""

from dataclasses import replace

import numpy as np
import torch

from agentrl_components.spec import RunSpec
from agentrl_components.trajectory.record import Ending, Trajectory, Turn
from agentrl_components.update.learner import Learner
from agentrl_components.update.logprobs import score
from agentrl_components.update.packing import Example, pack
from agentrl_components.workers.pool import InProcessPool
from agentrl_components.workers.trainers import PoolTrainers
from agentrl_components.workers.worker import Setup, Worker


def spec(**changes) -> RunSpec:
    usual = {
        "model": {
            "source": "tiny",
            "context": 64,
            "tiny": {"layers": 1, "hidden": 24, "heads": 3, "intermediate": 64},
        },
        "environments": [{"name": "corridor", "builtin": "corridor"}],
        "horizon": {"phases": [{"maxTurns": 3, "iterations": 2}]},
        "update": {"learningRate": 1e-3, "miniBatch": 4, "microBatchTokens": 64},
    }
    for key, value in changes.items():
        usual[key] = usual.get(key, {}) | value
    return RunSpec.model_validate(usual)


class Bench:
    """A learner with one worker in this process."""

    def __init__(self, folder, **changes) -> None:
        self.spec = spec(**changes)
        self.worker = Worker(Setup(spec=self.spec, folder=folder, device="cpu"))
        self.pool = InProcessPool(self.worker)
        self.trainers = PoolTrainers(self.spec, self.worker, self.pool)
        self.learner = Learner(self.spec, self.trainers)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pool.close()

    def update(self, episodes, iteration=0, rate=1e-3):
        return self.learner.update(episodes, iteration, rate)

    @property
    def vector(self):
        return self.worker.policy.shared.vector.clone()

    @torch.no_grad()
    def logprobs(self, episode):
        self.worker.policy.refresh()
        one = Example(
            ids=episode.ids,
            sampled=np.flatnonzero(episode.mask),
            allowed=None,
            temperature=1.0,
            columns={},
        )
        return score(self.worker.decoder, pack([one], [0]), 1024)[0]


def episode(sample, score, group=0, reply=(9, 10), mismatch=0.0, ending=Ending.TERMINATED):
    """One turn: the prompt 5 6 7, the tokens of `reply`, and the observation 8."""
    ids = np.array([5, 6, 7, *reply, 8], dtype=np.int32)
    mask = np.zeros(len(ids), dtype=bool)
    mask[3 : 3 + len(reply)] = True
    turn = Turn(
        start=3,
        end=3 + len(reply),
        reward=score,
        wellformed=True,
        action="go",
        observation="door",
        version=0,
    )
    return Trajectory(
        environment="corridor",
        task=f"corridor-{group}",
        category="walk",
        group=group,
        sample=sample,
        iteration=0,
        ids=ids,
        mask=mask,
        logprobs=np.where(mask, np.float32(-3.0 + mismatch), 0).astype(np.float32),
        allowed=None,
        turns=(turn,),
        ending=ending,
        score=score,
        raw_score=score,
        success=score > 0.5,
        max_turns=3,
    )


def as_sampled(bench, episodes):
    """The episodes with log-probabilities recomputed by the current policy."""
    out = []
    for one in episodes:
        logprobs = one.logprobs.copy()
        logprobs[one.mask] = bench.logprobs(one).numpy()
        out.append(replace(one, logprobs=logprobs))
    return out


GROUP = [episode(0, 1.0, reply=(9, 10)), episode(1, 0.0, reply=(11, 12))]
EIGHT = [
    episode(sample, float(sample % 2), group=group, reply=(9 + sample, 14 + group))
    for group in range(2)
    for sample in range(4)
]
