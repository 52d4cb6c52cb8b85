"""The schema of report.json: the results of a run."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from agentrl_components.evaluation.summary import HeldoutResult
from agentrl_components.reporting.transcript import Replay
from agentrl_components.schedule.history import silent_message
from agentrl_components.schedule.record import IterationRecord
from agentrl_components.spec.turn_limits import range_of
from agentrl_components.storage import keys


class ReportPart(BaseModel):
    """Base of all parts of the report: immutable, no unknown fields. In JSON, floats that are not
    finite are the strings "NaN", "Infinity" and "-Infinity"."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")


class Heldout(ReportPart):
    """The evaluations on held-out tasks. None: not evaluated (yet)."""

    random: HeldoutResult | None = None
    """The random policy over the admissible actions."""
    before: HeldoutResult | None = None
    """Evaluation after the warm start, before reinforcement learning."""
    after: HeldoutResult | None = None
    """Evaluation after training. Of a run that an alarm stopped, that after its last iteration."""


class IntermediateEvaluation(ReportPart):
    """An evaluation during training."""

    iterations: int
    """Iterations completed before it."""
    found: HeldoutResult


class PhaseSummary(ReportPart):
    """One phase of the horizon schedule."""

    phase: int
    """Number of the phase, from 0."""
    horizon: int
    """Maximum turns of an episode, in environments without limits of their own."""
    turn_limits: dict[str, int] = {}
    """Turn limit by environment, if one has limits of its own."""
    iterations: int
    """Iterations completed."""
    planned: int
    """Maximum iterations."""
    success_first: float | None
    """Mean training success of its first iterations."""
    success_last: float | None
    """Mean training success of its last iterations."""
    ended: str
    """Why the phase ended; for a phase that has not ended, its state."""

    @property
    def turns(self) -> str:
        """The turn limit for display: `8`, or `3 to 8` if environments differ."""
        return range_of(self.turn_limits.values() or [self.horizon])


class EnvironmentSummary(ReportPart):
    """One environment of a run with several."""

    name: str
    success_first: float | None
    """Mean training success of the first iterations that played it."""
    success_last: float | None
    """Mean training success of the last iterations that played it."""
    max_turns: int | None
    """Its turn limit in the last iteration that played it."""
    down: int
    """Iterations that it was left out of, because it did not answer."""


class AlarmSummary(ReportPart):
    """An alarm that fired after one iteration or several consecutive ones."""

    signal: str
    action: str
    first: int
    """Iterations completed when it fired for the first time, as in MLflow's steps."""
    last: int
    """The same for the last time."""
    message: str
    """The message at the first of them."""


class CheckpointSummary(ReportPart):
    """A checkpoint."""

    iteration: int
    """Iterations completed."""
    key: str
    """Prefix in the store."""
    url: str
    best: bool
    last: bool


class MlflowLink(ReportPart):
    """The MLflow run with metrics and episodes."""

    uri: str | None
    """Tracking URI. None: unknown."""
    experiment: str
    run_id: str | None = None
    registered: str | None = None
    """Name of the registered model of a run that has succeeded."""


class EpisodePair(ReportPart):
    """Episodes of one held-out task before and after training."""

    task: str
    category: str
    before: Replay | None
    after: Replay | None


class Report(ReportPart):
    """The report of a run."""

    name: str
    status: str
    message: str
    model: str
    algorithm: str
    warm_start: str | None
    environments: tuple[str, ...]
    actions: str
    seed: int
    manifest: str
    """The manifest as YAML."""
    heldout: Heldout
    phases: tuple[PhaseSummary, ...]
    by_environment: tuple[EnvironmentSummary, ...] = ()
    """Empty if there is one environment."""
    wall_seconds: dict[str, float]
    """Seconds by stage."""
    alarms: tuple[AlarmSummary, ...]
    checkpoints: tuple[CheckpointSummary, ...]
    mlflow: MlflowLink
    training: tuple[IterationRecord, ...]
    evaluations: tuple[IntermediateEvaluation, ...]
    """Evaluations during training, in order."""
    episodes: tuple[EpisodePair, ...]

    @property
    def examples(self) -> tuple[EpisodePair, ...]:
        """The episodes, the most telling first: tasks that were failed before training and solved
        after it (the longest solution first), then other pairs, then single episodes."""

        def rank(pair: EpisodePair) -> tuple[bool, bool, int]:
            before, after = pair.before, pair.after
            if before is None or after is None:
                return True, True, 0
            learned = after.success and not before.success
            return False, not learned, -len(after.moves) if learned else 0

        return tuple(sorted(self.episodes, key=rank))

    @property
    def after_name(self) -> str:
        """When the evaluation `heldout.after` took place."""
        after = self.heldout.after
        number = -1 if after is None else keys.evaluation_number(after.name)
        return "after training" if number < 0 else f"after iteration {number}"

    @property
    def heldout_names(self) -> dict[str, str]:
        """What each evaluation of `heldout` is called, by its field."""
        before = "after the warm start" if self.warm_start else "before"
        return {"random": "random policy", "before": before, "after": self.after_name}

    @property
    def silence(self) -> str:
        """How many iterations changed no weights, and what helps. Empty: none."""
        silent = sum(one.silent for one in self.training)
        return f"{silent_message(f'{silent} of {len(self.training)}')}." if silent else ""

    @property
    def headline(self) -> str:
        """The result in one sentence."""
        before, after = self.heldout.before, self.heldout.after
        if before is None and after is None:
            return "Nothing has been evaluated yet."
        if before is None or after is None:
            when = "before training" if after is None else self.after_name
            shares = [_percent(one.success) for one in (before, after) if one is not None]
            without = [one.without for one in (before, after) if one is not None]
            return f"Held-out success is {shares[0]} {when}{without[0]}."
        if before.missing != after.missing:
            return (
                f"Held-out success is {_percent(before.success)} before{before.without}, and "
                f"{_percent(after.success)} {self.after_name}{after.without}: the "
                "tasks are not the same."
            )
        change = f"from {_percent(before.success)} to {_percent(after.success)}{after.without}"
        if before.low <= after.high and after.low <= before.high:
            return f"Held-out success went {change}; the 95 % intervals overlap."
        word = "rose" if after.success > before.success else "fell"
        return f"Held-out success {word} {change}."


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"
