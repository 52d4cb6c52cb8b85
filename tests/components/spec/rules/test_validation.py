"""Every rule, by manifests that violate it."""

from __future__ import annotations

import pytest
from rule_violations import (
    algorithm,
    compute,
    environment_servers,
    environments,
    evaluation,
    horizon,
    model,
    placement,
    pods,
    storage,
    warmstart,
)
from rule_violations.manifest import mistakes

from agentrl_components.spec.rules.validation import RULES

VIOLATIONS = [
    *model.VIOLATIONS,
    *environments.VIOLATIONS,
    *environment_servers.VIOLATIONS,
    *algorithm.VIOLATIONS,
    *horizon.VIOLATIONS,
    *evaluation.VIOLATIONS,
    *warmstart.VIOLATIONS,
    *storage.VIOLATIONS,
    *compute.VIOLATIONS,
    *pods.VIOLATIONS,
    *placement.VIOLATIONS,
]


def test_the_base_manifest_is_valid(tmp_path):
    assert mistakes(tmp_path, ()) == []


@pytest.mark.parametrize(("name", "overrides", "fields"), VIOLATIONS)
def test_a_violated_rule_names_the_field(tmp_path, name, overrides, fields):
    assert [line.split(": ")[0] for line in mistakes(tmp_path, overrides)] == fields


def test_every_rule_has_an_example():
    assert {rule.check.__name__ for rule in RULES} == {name for name, _, _ in VIOLATIONS}
