"""What is shown and sent to the tracker of a finished iteration, with its numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from iteration_records import iteration_record

from agentrl_components.run.context import RunContext
from agentrl_components.run.progress import IterationProgress, SilentProgressView
from agentrl_components.run.reporting import report_iteration
from agentrl_components.schedule.record import Decision
from agentrl_components.spec import parse
from agentrl_components.storage.open import MemoryStore
from agentrl_components.tracking.tracker import MemoryTracker

MANIFEST: dict[str, Any] = {
    "apiVersion": "agentrl.dev/v1alpha1",
    "kind": "AgentRLRun",
    "metadata": {"name": "shown"},
    "spec": {
        "model": {
            "context": 128,
            "tiny": {"layers": 1, "hidden": 24, "heads": 3, "intermediate": 32},
        },
        "environments": [
            {"name": "corridor", "builtin": "corridor"},
            {"name": "long", "builtin": "corridor", "maxTurns": [7, 9]},
        ],
        "horizon": {
            "phases": [{"maxTurns": 3, "iterations": 5}, {"maxTurns": 8, "iterations": 15}]
        },
        "compute": {"device": "cpu", "workers": 1},
    },
}
SECONDS = {"rollout": 1.5, "update": 0.5}


class Run:
    """Reports iterations one after another."""

    def __init__(self, context: RunContext) -> None:
        self.context = context
        self.view, self.tracker = SilentProgressView(), MemoryTracker()
        context.view, context.tracker = self.view, self.tracker

    def report(
        self,
        success: float,
        *,
        seconds: dict[str, float] = SECONDS,
        phase: int = 0,
        **values: float,
    ) -> IterationProgress:
        """What is shown of an iteration in which 48 of 64 tokens were sampled."""
        record = iteration_record(
            iteration=len(self.context.history),
            phase=phase,
            max_turns=3,
            decision=Decision(action="continue", phase=phase, max_turns=3, reason=""),
            success=success,
            **values,
        )
        record.metrics.update({"train/tokens": 64.0, "train/sampled_tokens": 48.0})
        self.context.history.append(record)
        report_iteration(self.context, record, (), seconds, {"measured": 5.0})
        return self.view.iterations[-1]


@pytest.fixture
def run() -> Iterator[Run]:
    with opened(MANIFEST) as found:
        yield found


@contextmanager
def opened(manifest: dict[str, Any]) -> Iterator[Run]:
    run, silent = parse(manifest), SilentProgressView()
    with RunContext(run, MemoryStore(), MemoryTracker(), silent, lambda: None) as context:
        yield Run(context)


def test_an_iteration_is_shown_with_its_place_its_speed_and_the_time_left(run):
    assert run.report(0.25) == IterationProgress(
        iteration=1,
        iterations=20,
        phase=0,
        phases=2,
        turns="3 to 7",
        success=0.25,
        score=None,
        tokens_per_s=32.0,  # 48 in 1.5 s of the rollout
        seconds_left=38.0,  # 19 iterations of 2 s
    )
    assert run.report(0.75, seconds={"rollout": 3.0, "update": 1.0}, phase=1) == IterationProgress(
        iteration=2,
        iterations=20,
        phase=1,
        phases=2,
        turns="8 to 9",
        success=0.5,
        score=None,
        tokens_per_s=16.0,
        seconds_left=54.0,  # 18 iterations of 3 s
    )


def test_streamed_episodes_are_sampled_in_all_of_an_iteration():
    """48 tokens in 2 s: the rollout's 1.5 s are what the update has waited for groups."""
    spec = MANIFEST["spec"] | {"rollout": {"maxStaleness": 1}}
    with opened(MANIFEST | {"spec": spec}) as run:
        assert run.report(0.25).tokens_per_s == 24.0


def test_success_and_score_are_shown_as_means_of_the_last_ten_iterations(run):
    shown = [run.report(success, score=0.5) for success in (1.0, *[0.0] * 8, 0.5, 0.5)]
    assert [shown[n].success for n in (0, 1, 9, 10)] == [1.0, 0.5, 0.15, 0.1]
    assert [shown[n].score for n in (0, 1, 9, 10)] == [0.5, None, 0.5, 0.5]


def test_the_tracker_gets_metrics_and_seconds_and_the_journal_counts_the_seconds(run):
    run.report(0.25)
    run.report(0.75)
    assert run.tracker.recorded == {
        number: {
            "train/success": success,
            "train/tokens": 64.0,
            "train/sampled_tokens": 48.0,
            "horizon/phase": 0.0,
            "horizon/max_turns": 3.0,
            "seconds/rollout": 1.5,
            "seconds/update": 0.5,
            "measured": 5.0,
        }
        for number, success in ((1, 0.25), (2, 0.75))
    }
    assert run.context.journal.wall_seconds == {"rollout": 3.0, "update": 1.0}
