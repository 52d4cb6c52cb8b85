"""The repository as tests of its documents read it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PACKAGES = {
    "agentrl_operator": ROOT / "operator/agentrl_operator",
    "agentrl_pipelines": ROOT / "pipelines/agentrl_pipelines",
    "agentrl_components": ROOT / "components/agentrl_components",
    "agentrl_envs": ROOT / "envs/agentrl_envs",
}

DOCUMENTS = sorted(
    [
        *ROOT.glob("docs/*.md"),
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
        ROOT / "benchmarks/README.md",
        ROOT / "hack/cluster/README.md",
        ROOT / "helm/agentrl/README.md",
    ]
)


def make_targets() -> set[str]:
    """Targets that the Makefile defines."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][\w-]*):", text, re.MULTILINE))
