"""What the operator counts, for Prometheus."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from agentrl_components.spec.crd.status import STATES


class Metrics:
    """One set, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reconciles = Counter(
            "agentrl_operator_reconciles",
            "Looks at a run, by how they ended.",
            ["result"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "agentrl_operator_reconcile_seconds",
            "Time that a look at a run took.",
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=self.registry,
        )
        self.actions = Counter(
            "agentrl_operator_actions", "Things done.", ["action"], registry=self.registry
        )
        self.troubles = Counter(
            "agentrl_operator_troubles",
            "Failures of neighbours, by whose.",
            ["neighbour"],
            registry=self.registry,
        )
        self.acts = Gauge(
            "agentrl_operator_acts",
            "1: this operator acts. 0: it waits for the lease, which another one holds.",
            registry=self.registry,
        )
        self.event_age = Gauge(
            "agentrl_operator_last_event_age_seconds",
            "Since the last event of any watch.",
            registry=self.registry,
        )
        self.answer_age = Gauge(
            "agentrl_operator_last_answer_age_seconds",
            "Since Kubernetes last answered a question about runs.",
            registry=self.registry,
        )
        self.waiting = Gauge(
            "agentrl_operator_queue", "Runs that wait to be looked at.", registry=self.registry
        )

    def runs_by_state(self, states: Callable[[], Iterable[str]]) -> None:
        """Show how many runs are in each state."""
        self.registry.register(_Runs(states))


class _Runs(Collector):
    def __init__(self, states: Callable[[], Iterable[str]]) -> None:
        self._states = states

    def collect(self) -> Iterable[GaugeMetricFamily]:
        family = GaugeMetricFamily("agentrl_runs", "Runs, by state.", labels=["state"])
        counts = Counts(self._states())
        for state in STATES:
            family.add_metric([state], counts[state])
        yield family
