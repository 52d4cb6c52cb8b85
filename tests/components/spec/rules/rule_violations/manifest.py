"""A valid manifest, and the mistakes of those that are made from it."""

from __future__ import annotations

from pathlib import Path

from agentrl_components.errors import SpecError
from agentrl_components.spec import load

MANIFEST = """
apiVersion: agentrl.dev/v1alpha1
kind: AgentRLRun
metadata: {name: first-try}
spec:
  environments:
    - {name: rooms, builtin: babyai}
    - {name: walk, builtin: corridor}
  horizon:
    phases:
      - {maxTurns: 3, iterations: 20}
      - {maxTurns: 8, iterations: 30}
"""

Violation = tuple[str, tuple[str, ...], list[str]]


def mistakes(folder: Path, overrides: tuple[str, ...]) -> list[str]:
    """The mistakes of the manifest with these overrides; `folder` is for its file."""
    path = folder / "run.yaml"
    path.write_text(MANIFEST)
    try:
        load(path, overrides)
    except SpecError as error:
        return error.mistakes
    return []
