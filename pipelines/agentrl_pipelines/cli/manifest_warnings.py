"""Warnings about a valid manifest, printed by the commands that check or start it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrl_envs.output.printable import echo

if TYPE_CHECKING:
    from agentrl_components.spec import RunSpec


def print_warnings(spec: RunSpec, *, here: bool = False) -> None:
    """Print a line to stderr for each warning about the manifest, and with `here` for each field
    that has no effect on a run on this machine."""
    from agentrl_components.spec.rules.local import without_effect
    from agentrl_components.spec.rules.warnings import manifest_warnings

    for warning in (*manifest_warnings(spec), *(without_effect(spec) if here else ())):
        echo(f"warning: {warning}", err=True)
