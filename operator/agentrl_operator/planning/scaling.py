"""How many servers an environment should have, from the sessions that were open lately.

More servers come at once. Some go only when fewer were enough during the whole of
`scaling.downAfterS`: in a run, sessions end with every rollout and come back after the update.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentrl_components.spec import Scaling
from agentrl_operator.planning.observation import FleetSample

ROUNDING = 1e-9
"""Tolerance for rounding: 7 sessions of 10 at a target of 0.7 need one server, not two."""


def servers_needed(sample: FleetSample, scaling: Scaling) -> int:
    """The least number of servers, within the bounds, whose share of open sessions is not above
    the target."""
    sessions = sum(load.sessions for load in sample.loads)
    capacity = sum(load.capacity for load in sample.loads) / len(sample.loads)
    needed = math.ceil(sessions / (capacity * scaling.target_share) - ROUNDING)
    return min(max(needed, scaling.min_replicas), scaling.max_replicas)


def servers_wanted(current: int, samples: Sequence[FleetSample], scaling: Scaling) -> int:
    """The wanted number of servers, now that there are `current`.

    `samples` are in the order of their time. Those that are older than `downAfterS` are ignored,
    but if all are, the last one is used."""
    bounded = min(max(current, scaling.min_replicas), scaling.max_replicas)
    if not samples:
        return bounded
    latest = servers_needed(samples[-1], scaling)
    if latest >= bounded:
        return latest
    window = scaling.down_after_s
    if samples[0].age_s < window:
        return bounded  # too little is known
    recent = [one for one in samples if one.age_s <= window] or samples[-1:]
    return min(bounded, max(servers_needed(one, scaling) for one in recent))
