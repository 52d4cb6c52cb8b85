"""Errors of other processes arrive as they were raised."""

import inspect
import pickle

import pytest

import agentrl_components.errors
import agentrl_envs.errors
import agentrl_operator.errors
import agentrl_pipelines.cli.kube_client
from agentrl_components.errors import SpecError
from agentrl_components.storage.files import DamagedError
from agentrl_envs.errors import CapacityError
from agentrl_operator.errors import KubernetesError

MODULES = (
    agentrl_components.errors,
    agentrl_envs.errors,
    agentrl_operator.errors,
    agentrl_pipelines.cli.kube_client,
)
# In one order: pytest-xdist needs the same order of tests in all workers.
KINDS = dict.fromkeys(
    kind
    for module in MODULES
    for _, kind in inspect.getmembers(module, inspect.isclass)
    if issubclass(kind, Exception) and kind is not SpecError
)
OTHERS = (
    SpecError(["spec.seed: must be 0 or more", "spec.model: is missing"]),
    CapacityError("full", 3.0),
    KubernetesError("refused", status=404, retryable=False),
    DamagedError("checkpoints/000002: damaged"),
)


@pytest.mark.parametrize(
    "error",
    [*(kind("gone: the reason; the fix") for kind in KINDS), *OTHERS],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_the_same_after_it_was_sent_to_another_process(error):
    found = pickle.loads(pickle.dumps(error))
    assert (type(found), str(found), vars(found)) == (type(error), str(error), vars(error))
