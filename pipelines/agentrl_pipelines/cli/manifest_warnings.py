"""Warnings about a valid manifest, printed by the commands that check or start it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agentrl_envs.output.printable import echo

if TYPE_CHECKING:
    from agentrl_components.spec import RunSpec


def print_warnings(spec: RunSpec, *, root: Path | None = None) -> None:
    """Print a line to stderr for each warning about the manifest. With `root`, the folder of a run
    on this machine, also for each field and variable that has no effect on it."""
    from agentrl_components.spec.rules.local import without_effect
    from agentrl_components.spec.rules.warnings import manifest_warnings
    from agentrl_pipelines.local.variables import tracking_warnings

    warnings = [*manifest_warnings(spec)]
    if root is not None:
        warnings += [*without_effect(spec), *tracking_warnings(spec.tracking, root)]
    for warning in warnings:
        echo(f"warning: {warning}", err=True)
