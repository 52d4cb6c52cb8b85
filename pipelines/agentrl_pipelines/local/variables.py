"""The environment variables of a manifest, for commands on this machine."""

from __future__ import annotations

import os

from agentrl_components.spec import Compute


def set_variables(compute: Compute) -> None:
    """Set those of `compute.env` that this process does not have. Call it before what reads them
    is imported: a client of a model hub, an engine, an environment."""
    for variable in compute.env:
        os.environ.setdefault(variable.name, variable.value)
