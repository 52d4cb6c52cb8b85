"""The manifest that the stages receive."""

import json

import yaml
from cluster_run import MANIFEST, UID, manifest

from agentrl_components.spec import parse
from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.resolve import (
    MAX_NAME_LENGTH,
    child_name,
    cluster_manifest,
    is_run_prefix,
    run_storage,
)


def test_managed_environments_have_the_url_of_their_service():
    run = cluster_manifest(manifest(), UID, Platform(tracking={"uri": "http://mlflow:5000"}))
    rooms, inside, web = run.spec.environments
    assert rooms.url == "http://walk-6f1e2d3c-rooms.team.svc:8080"
    assert (rooms.builtin, rooms.token_env, rooms.options) == (None, "AGENTRL_ENV_TOKEN", {})
    assert inside.builtin == "corridor"
    assert (web.url, web.token_env) == ("http://web:8000", "WEB_TOKEN")
    assert run.spec.storage.url == "s3://mlpipeline/agentrl/team/walk-6f1e2d3c"
    assert run.spec.tracking.uri == "http://mlflow:5000"
    parse(json.loads(run.model_dump_json(by_alias=True)))


def test_each_run_has_its_own_prefix_in_the_store():
    read = yaml.safe_load(MANIFEST)
    read["spec"]["storage"] = {"url": "s3://models/agents/", "endpoint": "http://minio:9000"}
    first = run_storage(parse(read), UID, Platform())
    later = run_storage(parse(read), "00000000-1111-4222-8333-444455556666", Platform())
    read["metadata"]["name"] = "copy"
    copied = run_storage(parse(read), UID, Platform())
    assert [one.url for one in (first, later, copied)] == [
        "s3://models/agents/team/walk-6f1e2d3c",
        "s3://models/agents/team/walk-00000000",
        "s3://models/agents/team/copy-6f1e2d3c",
    ]
    assert first.endpoint == "http://minio:9000"


def test_the_prefix_of_a_run_is_recognised_below_any_address():
    read = yaml.safe_load(MANIFEST)
    for url in ("s3://models", "s3://models/", "s3://models/agents/team/other-00000000"):
        read["spec"]["storage"] = {"url": url, "endpoint": "http://minio:9000"}
        storage = run_storage(parse(read), UID, Platform())
        assert is_run_prefix(storage.url.removeprefix("s3://models/"))
    for other in (
        "",
        "team",
        "walk-6f1e2d3c",
        "team/walk",
        "team/walk-6f1e2d3c/",
        "team/-6f1e2d3c",
    ):
        assert not is_run_prefix(other)


def test_managed_environments_have_at_least_two_replicas_for_lookup():
    rooms, inside, web = cluster_manifest(manifest(), UID, Platform()).spec.environments
    assert (rooms.replicas, inside.replicas, web.replicas) == (2, 0, 1)


def test_child_names_fit_and_differ():
    long = child_name("a" * 52, UID, "b" * 40)
    assert len(long) == MAX_NAME_LENGTH
    assert long != child_name("a" * 52, UID, "b" * 39 + "c")
    assert child_name("walk", UID, "rooms") == "walk-6f1e2d3c-rooms"


def test_what_the_stages_get_of_a_served_environment_is_a_valid_manifest():
    """Regression: stages refused their own manifest, since `backend` needs servers of the run."""
    served = {
        "name": "code",
        "builtin": "corridor",
        "options": {"turns": 3},
        "secretEnv": [{"name": "KEY", "secret": "judge", "key": "key"}],
        "volumes": [{"claim": "wiki", "path": "/data"}],
        "backend": "sandbox",
        "runtimeClassName": "gvisor",
        "memory": "1Gi",
    }
    scaled = {"name": "walk", "builtin": "corridor", "scaling": {"maxReplicas": 4}}
    content = manifest().model_dump(mode="json", by_alias=True, exclude_defaults=True)
    content["spec"]["environments"] = [served, scaled]
    stages = cluster_manifest(parse(content), UID, Platform())
    assert parse(json.loads(stages.model_dump_json(by_alias=True, exclude_defaults=True))) == stages
