"""Prometheus metrics of a server, exposed at /metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Histogram buckets in seconds: from a step of a grid world to one of a browser."""


class Metrics:
    """The metrics of one server, in a registry of their own: two servers may share a process."""

    def __init__(self, *, environment: str, capacity: int) -> None:
        self._registry = CollectorRegistry()
        labels = ["environment"]

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(name, text, labels, registry=self._registry).labels(environment)

        def counter(name: str, text: str) -> Counter:
            return Counter(name, text, labels, registry=self._registry).labels(environment)

        def histogram(name: str, text: str) -> Histogram:
            metric = Histogram(name, text, labels, buckets=SECONDS, registry=self._registry)
            return metric.labels(environment)

        self.sessions = gauge("agentrl_env_sessions", "Open sessions")
        self.capacity = gauge("agentrl_env_sessions_capacity", "Maximum number of open sessions")
        self.share = gauge(
            "agentrl_env_sessions_share", "Open sessions as a share of their maximum number"
        )
        self.opened = counter("agentrl_env_sessions_opened", "Sessions opened")
        self.expired = counter("agentrl_env_sessions_expired", "Sessions that expired")
        self.refused = counter("agentrl_env_sessions_refused", "Opens rejected by a full server")
        self.lost = counter("agentrl_env_sessions_lost", "Sessions lost to a failure")
        self.repeated = counter("agentrl_env_repeats", "Calls answered from the last answer")
        self.steps = counter("agentrl_env_steps", "Steps taken")
        self.reset_seconds = histogram("agentrl_env_reset_seconds", "Duration of a reset")
        self.step_seconds = histogram("agentrl_env_step_seconds", "Duration of a step")
        self.capacity.set(capacity)

    def exposition(self) -> bytes:
        """All metrics in the Prometheus text format."""
        return generate_latest(self._registry)
