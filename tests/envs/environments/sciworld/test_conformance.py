from functools import partial

import pytest

from agentrl_envs import registry
from agentrl_envs.conformance.check import check


@pytest.mark.slow
@pytest.mark.usefixtures("java")
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.nightly),
        {"text": "agentgym", "compat": "agentgym", "tasks": ["agentgym"]},
    ],
)
def test_both_text_forms_keep_the_contract(options):
    factory = partial(registry.task_set, "sciworld", options)
    report = check(factory(), tasks=2, factory=factory)
    assert report.passed, str(report)
