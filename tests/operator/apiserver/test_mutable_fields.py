"""Which fields of a live run a real kube-apiserver lets change."""

import pytest
from apiserver import Refused
from cluster_runs import RUNS, SERVED, changed, manifest


@pytest.fixture(scope="module")
def lasting(server):
    """A run to edit."""
    server.create(manifest("lasting", SERVED))
    yield f"{RUNS}/lasting"
    server.ask("DELETE", f"{RUNS}/lasting")


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("seed", 7, "spec.seed"),
        ("model.context", 2048, "spec.model.context"),
        ("model.lora", {}, "spec.model.lora"),
        ("algorithm.name", "ppo", "spec.algorithm.name"),
        ("horizon.phases.0.iterations", 3, "spec.horizon.phases"),
        ("warmStart", {"algorithm": "hindsight"}, "spec.warmStart"),
        ("rollout.tasks", 17, "spec.rollout.tasks"),
        ("update.learningRate", 1e-3, "spec.update.learningRate"),
        ("evaluation.every", 3, "spec.evaluation.every"),
        ("storage", {"url": "s3://other/place", "endpoint": "s3.test"}, "spec.storage.url"),
        ("environments.0.name", "other", "spec.environments"),
        ("environments.0.options", {"levels": ["a"]}, "spec.environments[0].options"),
        ("environments.0.weight", 2, "spec.environments[0].weight"),
        ("environments.0.replicas", 0, "spec.environments[0].replicas"),
        (
            "environments",
            [{"name": "babyai", "builtin": "babyai"}, {"name": "more", "builtin": "corridor"}],
            "spec.environments",
        ),
        (
            "environments.0",
            {"name": "babyai", "image": "registry.test/own:1"},
            "spec.environments[0].image",
        ),
    ],
)
def test_fields_that_determine_results_are_immutable(server, lasting, path, value, field):
    current = server.ask("GET", lasting)
    with pytest.raises(
        Refused, match=r"(is immutable|cannot be changed from or to 0) while the run exists"
    ) as refused:
        server.ask("PUT", lasting, current | {"spec": changed(path, value)})
    assert f"{field}: " in str(refused.value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("environments.0.replicas", 3),
        ("environments.0.memory", "2Gi"),
        ("environments.0.secretEnv", [{"name": "KEY", "secret": "judge", "key": "key"}]),
        ("rollout.concurrency", 8),
        ("update.keepLast", 5),
        ("compute.memory", "8Gi"),
        ("compute.placement", "disaggregated"),
        ("storage.onDelete", "delete"),
        ("tracking.uri", "http://mlflow.test"),
        ("activeDeadlineSeconds", 60),
        ("backoffLimit", 9),
    ],
)
def test_fields_that_do_not_affect_results_are_mutable(server, lasting, path, value):
    current = server.ask("GET", lasting)
    server.ask("PUT", lasting, current | {"spec": changed(path, value)})
