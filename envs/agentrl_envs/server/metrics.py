"""What a server counts, for Prometheus to read at /metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Histogram bounds: from a grid world's step to a browser's."""


class Metrics:
    """One server's counters, in a registry of their own so that two servers may share a process."""

    def __init__(self, *, environment: str, capacity: int) -> None:
        self._registry = CollectorRegistry()
        labels = ["environment"]

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(name, text, labels, registry=self._registry).labels(environment)

        def counter(name: str, text: str) -> Counter:
            return Counter(name, text, labels, registry=self._registry).labels(environment)

        def histogram(name: str, text: str) -> Histogram:
            whole = Histogram(name, text, labels, buckets=SECONDS, registry=self._registry)
            return whole.labels(environment)

        self.sessions = gauge("agentrl_env_sessions", "Sessions that are open")
        self.capacity = gauge("agentrl_env_sessions_capacity", "Sessions that may be open at once")
        self.opened = counter("agentrl_env_sessions_opened", "Sessions opened")
        self.expired = counter("agentrl_env_sessions_expired", "Sessions that ran out of time")
        self.refused = counter("agentrl_env_sessions_refused", "Opens refused: the server was full")
        self.lost = counter("agentrl_env_sessions_lost", "Sessions lost to a failure")
        self.repeated = counter("agentrl_env_repeats", "Calls answered from the stored answer")
        self.steps = counter("agentrl_env_steps", "Steps taken")
        self.reset_seconds = histogram("agentrl_env_reset_seconds", "Time to set a task up")
        self.step_seconds = histogram("agentrl_env_step_seconds", "Time of one step")
        self.capacity.set(capacity)

    def exposition(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self._registry)
