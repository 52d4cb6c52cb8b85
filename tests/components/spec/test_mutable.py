"""What of a manifest may change while its run lives; that the API server refuses the same fields is
in `test_crd.py`."""

from __future__ import annotations

from typing import Any

import pytest

from agentrl_components.spec import RunSpec
from agentrl_components.spec.mutable import immutable_changes, mutability


def spec(**fields: Any) -> RunSpec:
    usual: dict[str, Any] = {
        "environments": [{"name": "rooms", "builtin": "babyai"}],
        "horizon": {"phases": [{"maxTurns": 3, "iterations": 20}]},
    }
    return RunSpec.model_validate(usual | fields)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("seed", "immutable"),
        ("environments", "partly"),
        ("environments.*", "partly"),
        ("environments.*.replicas", "mutable"),
        ("environments.*.weight", "immutable"),
        ("compute.tolerations.*.key", "mutable"),
        ("storage", "partly"),
        ("storage.url", "immutable"),
        ("suspend", "mutable"),
    ],
)
def test_a_field_is_free_with_all_below_it(path, told):
    assert mutability(path) == told


def test_a_change_is_told_by_its_place_with_both_values():
    after = spec(
        environments=[{"name": "rooms", "builtin": "babyai", "weight": 2.0, "replicas": 5}],
        horizon={"phases": [{"maxTurns": 3, "iterations": 30}]},
        suspend=True,
    )
    assert list(immutable_changes(spec(), after)) == [
        ("spec.environments[0].weight", 1.0, 2.0),
        ("spec.horizon.phases[0].iterations", 20, 30),
    ]


def test_a_world_more_is_another_run():
    after = spec(environments=[{"name": "rooms", "builtin": "babyai"}, {"name": "more"}])
    ((path, old, new),) = immutable_changes(spec(), after)
    assert (path, len(old), len(new)) == ("spec.environments", 1, 2)
