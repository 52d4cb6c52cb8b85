"""Iteration records with literal numbers, for tests."""

from agentrl_components.schedule.record import IterationRecord

METRICS = {
    "success": "train/success",
    "score": "train/score",
    "wellformed": "train/wellformed",
    "reward_std": "train/reward_std",
    "turns": "train/turns",
    "capped": "train/capped",
    "entropy": "update/entropy",
    "grad_norm": "update/grad_norm",
    "mismatch_kl": "update/mismatch_kl",
}
"""Metric names by the property of `IterationRecord` that reads them."""


def iteration_record(**fields):
    """A record; properties that read a metric are given by their name."""
    metrics = {METRICS[name]: fields.pop(name) for name in list(fields) if name in METRICS}
    return IterationRecord(metrics=metrics, **fields)
