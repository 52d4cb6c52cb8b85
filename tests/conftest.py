"""Disable the time limits of Hypothesis: tests must not fail on a slow machine."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "no_time_limits", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("no_time_limits")
