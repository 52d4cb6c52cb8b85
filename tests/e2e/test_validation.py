"""The API server refuses invalid manifests."""

from __future__ import annotations

import pytest
import yaml
from installed import Installed
from run_manifests import manifest

pytestmark = pytest.mark.e2e

NO_TURNS = {"phases": [{"maxTurns": 0, "iterations": 1}]}
SHRINKING = {"phases": [{"maxTurns": 5, "iterations": 1}, {"maxTurns": 3, "iterations": 1}]}


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("spec.horizon.phases[0].maxTurns", {"horizon": NO_TURNS}),
        ("spec.algorithm.name", {"algorithm": {"name": "sarsa"}}),
        ("spec.horizon.phases", {"horizon": SHRINKING}),
        ("spec.sead", {"sead": 1}),
    ],
)
def test_invalid_manifest_is_refused_with_the_name_of_the_field(
    installed: Installed, field: str, change: dict[str, object]
) -> None:
    output = installed.refusal("create", "-f", "-", stdin=yaml.safe_dump(manifest("bad", **change)))
    assert field.lower() in output.lower(), output
    assert "bad" not in installed.kubectl("get", "agentrlruns", "-o", "name")
