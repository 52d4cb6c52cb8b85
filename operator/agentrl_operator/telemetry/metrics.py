"""Prometheus metrics of the operator."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from agentrl_components.spec.crd.status import STATES
from agentrl_operator.api.conditions import BLOCKING
from agentrl_operator.errors import (
    DependencyError,
    KfpError,
    KubernetesError,
    MlflowError,
    NotLeaderError,
    RunStoreError,
)

RESULTS = ("success", "not_found", "dependency_error", "internal_error")
OUTCOMES = ("Succeeded", "Failed")
DEPENDENCIES = (KubernetesError, NotLeaderError, KfpError, MlflowError, RunStoreError)
RECONCILE_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """The metrics of one operator, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reconciles = Counter(
            "agentrl_operator_reconcile",
            "Reconciliations of runs, by result.",
            ["result"],
            registry=self.registry,
        )
        self.reconcile_duration = Histogram(
            "agentrl_operator_reconcile_duration_seconds",
            "Duration of a reconciliation.",
            buckets=RECONCILE_BUCKETS_S,
            registry=self.registry,
        )
        self.actions = Counter(
            "agentrl_operator_actions",
            "Actions that were executed, by kind.",
            ["action"],
            registry=self.registry,
        )
        self.dependency_errors = Counter(
            "agentrl_operator_dependency_errors",
            "Errors of services that the operator depends on, by service.",
            ["dependency"],
            registry=self.registry,
        )
        self.runs_finished = Counter(
            "agentrl_runs_finished",
            "Runs that this process saw end, by state.",
            ["state"],
            registry=self.registry,
        )
        # Create all series at 0: `increase()` misses the event with which a series appears.
        for result in RESULTS:
            self.reconciles.labels(result)
        for error in DEPENDENCIES:
            self.dependency_errors.labels(error.dependency)
        for outcome in OUTCOMES:
            self.runs_finished.labels(outcome)
        self.leader = Gauge(
            "agentrl_operator_leader",
            "1 if this process is the leader, 0 if it is on standby.",
            registry=self.registry,
        )
        self.last_event_age = Gauge(
            "agentrl_operator_last_event_age_seconds",
            "Time since the last event of any watch.",
            registry=self.registry,
        )
        self.last_response_age = Gauge(
            "agentrl_operator_last_response_age_seconds",
            "Time since the API server last answered the heartbeat.",
            registry=self.registry,
        )
        self.workqueue_depth = Gauge(
            "agentrl_operator_workqueue_depth",
            "Runs that are waiting for reconciliation.",
            registry=self.registry,
        )

    def count_error(self, error: DependencyError) -> None:
        """Count a failed request to a service that the operator depends on."""
        self.dependency_errors.labels(error.dependency).inc()

    def observe_runs(
        self, states: Callable[[], Iterable[str]], reasons: Callable[[], Iterable[str]]
    ) -> None:
        """Export the number of runs in each state, and of those that are blocked, by reason.
        `states` returns the state of every run, and `reasons` that of its condition Progressing."""
        self.registry.register(_Count("agentrl_runs", "Runs, by state.", "state", STATES, states))
        self.registry.register(
            _Count(
                "agentrl_runs_blocked",
                "Runs that wait for something that should not last, by reason.",
                "reason",
                BLOCKING,
                reasons,
            )
        )


class _Count(Collector):
    """How often each of `values` occurs among those that `current` returns."""

    def __init__(
        self,
        name: str,
        text: str,
        label: str,
        values: Iterable[str],
        current: Callable[[], Iterable[str]],
    ) -> None:
        self._name, self._text, self._label = name, text, label
        self._values = tuple(values)
        self._current = current

    def collect(self) -> Iterable[GaugeMetricFamily]:
        family = GaugeMetricFamily(self._name, self._text, labels=[self._label])
        counts = Counts(self._current())
        for value in self._values:
            family.add_metric([str(value)], counts[value])
        yield family
