"""Fields that can change during a run. `crd/test_agreement.py` tests that the CRD agrees."""

from __future__ import annotations

from itertools import product
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
    ("path", "expected"),
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
def test_mutability_includes_nested_fields(path, expected):
    assert mutability(path) == expected


def test_a_change_has_its_path_and_both_values():
    after = spec(
        environments=[{"name": "rooms", "builtin": "babyai", "weight": 2.0, "replicas": 5}],
        horizon={"phases": [{"maxTurns": 3, "iterations": 30}]},
        suspend=True,
    )
    assert list(immutable_changes(spec(), after)) == [
        ("spec.environments[0].weight", 1.0, 2.0),
        ("spec.horizon.phases[0].iterations", 20, 30),
    ]


def test_an_added_environment_is_an_immutable_change():
    after = spec(environments=[{"name": "rooms", "builtin": "babyai"}, {"name": "more"}])
    ((path, old, new),) = immutable_changes(spec(), after)
    assert (path, len(old), len(new)) == ("spec.environments", 1, 2)


RAYS = (None, "embedded", "head:6379", "cluster")


@pytest.mark.parametrize(("before", "after"), [*product(RAYS, RAYS)])
def test_ray_may_be_another_one_but_neither_added_nor_removed(before, after):
    changes = list(immutable_changes(spec(compute={"ray": before}), spec(compute={"ray": after})))
    moved = (before is None) != (after is None)
    assert changes == ([("spec.compute.ray", before, after)] if moved else [])
