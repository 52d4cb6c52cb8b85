"""Names of the stages that run as processes, in the order of a phase."""

from __future__ import annotations

STAGE_NAMES = ("provision", "train", "rollout", "update", "evaluate", "expand", "settle")
"""`train` is rollout and update in one process."""
