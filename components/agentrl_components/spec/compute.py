"""What the work runs on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentrl_components.spec.part import Part


class Compute(Part):
    """Processes and devices."""

    workers: int = Field(default=0, ge=0, le=256)
    """Processes that play and differentiate side by side, one thread each on CPU. 0: one per core,
    at most two. Results do not depend on it."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: a GPU where there is one."""
