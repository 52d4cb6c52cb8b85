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


@pytest.fixture(scope="module")
def on_ray(server):
    """A run on Ray to edit."""
    server.create(manifest("on-ray", changed("compute.ray", "embedded")))
    yield f"{RUNS}/on-ray"
    server.ask("DELETE", f"{RUNS}/on-ray")


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
        ("compute.ray", "embedded", "spec.compute.ray"),
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
        Refused, match=r"(is immutable|cannot be .*) while the run exists"
    ) as refused:
        server.ask("PUT", lasting, current | {"spec": changed(path, value)})
    assert f"{field}: " in str(refused.value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("environments.0.replicas", 3),
        ("environments.0.memory", "2Gi"),
        ("environments.0.secretEnv", [{"name": "KEY", "secret": "judge", "key": "key"}]),
        ("environments.0.volumes", [{"claim": "wiki", "path": "/data"}]),
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


@pytest.mark.parametrize("value", ["head:6379", "cluster", "embedded"])
def test_a_run_on_ray_may_move_to_another_ray(server, on_ray, value):
    current = server.ask("GET", on_ray)
    server.ask("PUT", on_ray, current | {"spec": changed("compute.ray", value)})


@pytest.mark.parametrize("path", ["compute.ray", "compute"])
def test_a_run_on_ray_cannot_leave_it(server, on_ray, path):
    current = server.ask("GET", on_ray)
    removed = changed(path, None if path == "compute.ray" else {})
    with pytest.raises(Refused, match=r"spec\.compute\.ray: .*cannot be added or removed while"):
        server.ask("PUT", on_ray, current | {"spec": removed})
