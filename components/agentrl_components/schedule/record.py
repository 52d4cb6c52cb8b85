"""The record of one training iteration, and the decision taken after it.

There is one shape for both everywhere: the training loop makes them, the schedule reads them, the
journal and the checkpoints store them, and reports and trackers show them. Pydantic only, so that
the operator can read them without loading torch.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Action = Literal["continue", "advance", "hold", "rollback", "stop", "finish"]
Signal = Literal[
    "turns_pinned",
    "reward_drop",
    "wellformed_below",
    "entropy_below",
    "grad_norm_above",
    "reward_std_below",
    "mismatch_kl_above",
]


class _Stored(BaseModel):
    """Immutable. Unknown fields of a newer version are ignored. In JSON, floats that are not finite
    are the strings "NaN", "Infinity" and "-Infinity"."""

    model_config = ConfigDict(extra="ignore", frozen=True, ser_json_inf_nan="strings")


class FiredAlarm(_Stored):
    """An alarm of the manifest whose condition holds after an iteration."""

    alarm: int
    """Index in `horizon.alarms`."""
    signal: Signal
    action: Literal["record", "hold", "stop", "rollback"]
    value: float
    """Mean over the alarm's window; for `reward_drop` the share of success that was lost."""
    bound: float
    message: str
    """One sentence for people, with the numbers."""


class Decision(_Stored):
    """What happens after an iteration, and why."""

    action: Action
    """`continue`: stay in the phase. `advance`: start the next phase. `hold`: the phase is over,
    but an alarm keeps its horizon. `rollback`: continue from `checkpoint`. `stop`: an alarm ends
    the run. `finish`: the schedule is complete."""
    phase: int
    """Phase of the next iteration; of the last iteration if there is no next one."""
    max_turns: int
    """Horizon of that phase."""
    reason: str
    """One sentence for people."""
    alarms: tuple[FiredAlarm, ...] = ()
    """Every alarm that fired, whatever its action."""
    checkpoint: int | None = None
    """For `rollback`: the iteration whose checkpoint is restored."""

    @property
    def ends_run(self) -> bool:
        """Whether no iteration follows."""
        return self.action in ("finish", "stop")

    def ends_phase(self, phase: int) -> bool:
        """Whether `phase` is over. One that the run has not reached yet is not."""
        return self.phase > phase or self.ends_run


class IterationRecord(_Stored):
    """One iteration of training: where it was, what it measured, what was decided."""

    iteration: int
    """Counted over the whole run, from 0."""
    phase: int
    """Phase it was played in, from 0."""
    max_turns: int
    """Horizon it was played at."""
    version: int = 0
    """Policy version after its update."""
    staleness: int = 0
    """Updates between the policy that played it and the policy that learned from it."""
    metrics: dict[str, float | None] = {}
    """All metrics by name (`train/...`, `update/...`). No clock readings, so two runs compare.
    Where episodes stream, results depend on speed, and idle shares are among them."""
    heldout: float | None = None
    """Held-out success of the weights after this iteration. None: not evaluated, or without an
    environment that was down."""
    heldout_score: float | None = Field(default=None, exclude_if=lambda score: score is None)
    """Mean held-out score. None: the same as `heldout`."""
    checkpointed: bool = False
    """The weights after this iteration are in a checkpoint."""
    restored: bool = False
    """It started from the best checkpoint (a rollback), not from the previous iteration."""
    decision: Decision | None = None
    """None: not decided yet."""

    def json_data(self) -> dict[str, Any]:
        """The record as JSON data: dicts, lists, strings, numbers and None."""
        data: dict[str, Any] = json.loads(self.model_dump_json())
        return data

    @property
    def success(self) -> float:
        """Share of its training episodes that were solved."""
        return self.metrics.get("train/success") or 0.0

    @property
    def absent(self) -> frozenset[str]:
        """Environments that were down: it has no episode of them. Not known, and empty, where
        episodes stream: a slow environment may have none in an iteration, although it is up."""
        if "rollout/lead" in self.metrics:
            return frozenset()
        return frozenset(
            name.split("/")[1]
            for name, count in self.metrics.items()
            if name.endswith("/episodes") and name.count("/") == 2 and not count
        )

    @property
    def score(self) -> float:
        """Mean score of its training episodes; their success where it was not measured."""
        score = self.metrics.get("train/score")
        return self.success if score is None else score

    @property
    def silent(self) -> bool:
        """Whether nothing was trained on, because in each group all episodes earned the same."""
        metrics = self.metrics
        return metrics.get("update/episodes") == 0 and bool(metrics.get("train/silent_groups"))

    @property
    def all_skipped(self) -> bool:
        """Whether all optimizer steps of the policy were skipped, as their gradients were not
        finite."""
        return bool(self.metrics.get("update/all_skipped"))

    @property
    def wellformed(self) -> float | None:
        """Share of replies that contain exactly one valid action."""
        return self.metrics.get("train/wellformed")

    @property
    def reward_std(self) -> float | None:
        """Mean standard deviation of the shaped reward within a group."""
        return self.metrics.get("train/reward_std")

    @property
    def turns(self) -> float | None:
        """Turns per episode."""
        return self.metrics.get("train/turns")

    @property
    def capped(self) -> float | None:
        """Share of episodes that ended at the horizon without success."""
        return self.metrics.get("train/capped")

    @property
    def entropy(self) -> float | None:
        """Nats per sampled token. None: no token was trained."""
        return self.metrics.get("update/entropy")

    @property
    def grad_norm(self) -> float | None:
        """Norm before clipping, mean over optimizer steps. None: no step was taken."""
        return self.metrics.get("update/grad_norm")

    @property
    def mismatch_kl(self) -> float | None:
        """KL(sampler || trainer) in nats per token. None: not measured."""
        return self.metrics.get("update/mismatch_kl")
