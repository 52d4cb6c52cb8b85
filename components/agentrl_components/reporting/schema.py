"""What a run has come to, in numbers: the content of report.json."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from agentrl_components.evaluation.summary import Evaluated
from agentrl_components.reporting.transcript import Replay
from agentrl_components.schedule.record import IterationRecord


class Told(BaseModel):
    """A part of the report."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Heldout(Told):
    """Held-out success. None: not evaluated (yet)."""

    random: Evaluated | None = None
    """The random policy over admissible actions."""
    before: Evaluated | None = None
    """Before reinforcement learning, after the warm start."""
    after: Evaluated | None = None
    """At the end."""


class Between(Told):
    """An evaluation while training went on."""

    iterations: int
    """Iterations that were done."""
    found: Evaluated


class PhaseTold(Told):
    """One phase of the horizon schedule."""

    phase: int
    """From 0."""
    horizon: int
    """Turns an episode might take."""
    iterations: int
    """Done."""
    planned: int
    """At most."""
    success_first: float | None
    """Mean training success of its first iterations."""
    success_last: float | None
    """Mean training success of its last iterations."""
    ended: str
    """How it ended, for people; where it is, for one that has not."""


class Alarmed(Told):
    """An alarm that rang, at one or several iterations in a row."""

    signal: str
    action: str
    first: int
    last: int
    message: str
    """Of the first time."""


class Kept(Told):
    """A checkpoint."""

    iteration: int
    """Iterations done."""
    key: str
    """In the store."""
    url: str
    best: bool
    last: bool


class Mlflow(Told):
    """Where metrics and episodes are shown."""

    uri: str | None
    """None: not known where."""
    experiment: str
    run_id: str | None = None


class Pair(Told):
    """One held-out task, played before and after."""

    task: str
    category: str
    before: Replay | None
    after: Replay | None


class Report(Told):
    """All there is to tell about a run."""

    name: str
    status: str
    message: str
    model: str
    algorithm: str
    warm_start: str | None
    environments: tuple[str, ...]
    actions: str
    seed: int
    heldout: Heldout
    phases: tuple[PhaseTold, ...]
    wall_seconds: dict[str, float]
    """By stage."""
    alarms: tuple[Alarmed, ...]
    checkpoints: tuple[Kept, ...]
    mlflow: Mlflow
    training: tuple[IterationRecord, ...]
    evaluations: tuple[Between, ...]
    """Those between before and after."""
    episodes: tuple[Pair, ...]

    @property
    def headline(self) -> str:
        """The result in one sentence."""
        before, after = self.heldout.before, self.heldout.after
        if before is None and after is None:
            return "Nothing has been evaluated yet."
        if before is None or after is None:
            when = "before training" if after is None else "after training"
            shares = [_percent(one.success) for one in (before, after) if one is not None]
            return f"Held-out success is {shares[0]} {when}."
        change = f"from {_percent(before.success)} to {_percent(after.success)}"
        if before.low <= after.high and after.low <= before.high:
            return f"Held-out success went {change}; the 95 % intervals overlap."
        word = "rose" if after.success > before.success else "fell"
        return f"Held-out success {word} {change}."


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"
