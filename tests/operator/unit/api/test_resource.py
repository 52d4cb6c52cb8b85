"""Validation of a manifest for the platform, and the servers that the operator may contact."""

import pytest
from demo_run import PLATFORM, SPEC, run

from agentrl_operator.api.resource import read, stage_tracking_uri, tracking_uri
from agentrl_pipelines.platform.config import Platform

TRACKED = Platform(
    tracking={"uri": "http://mlflow:5000", "others": ["https://mlflow.team.test/base"]}
)

QUESTIONS = [{"dataset": "hotpotqa", "path": "/data/b", "split": "train"}]


def tracked_at(uri):
    return run(SPEC | {"tracking": {"uri": uri}})


def test_a_store_that_the_platform_does_not_list_is_not_accepted():
    storage = {"url": "s3://loot/a", "endpoint": "http://evil.test", "accessKeyEnv": "SECRET"}
    resource = run(SPEC | {"storage": storage})

    assert resource.run is None
    assert resource.mistakes == (
        "spec.storage.endpoint: http://evil.test is not an object store of this platform; use "
        "another one, or let an administrator add it to storage.others",
    )


def test_the_store_of_the_platform_is_accepted_under_another_bucket():
    storage = {"url": "s3://other/place", "endpoint": PLATFORM.storage.endpoint}
    assert run(SPEC | {"storage": storage}).mistakes == ()


def test_a_run_in_the_store_of_the_platform_may_name_no_other_service():
    spec = SPEC | {
        "model": {"source": "s3://models/tiny"},
        "storage": {"endpoint": "http://evil.test"},
    }
    (mistake,) = run(spec).mistakes
    assert mistake == (
        "spec.storage.endpoint: http://evil.test is not the object store of this platform, in "
        "which a run without spec.storage.url is stored; set spec.storage.url to a bucket of "
        "http://evil.test, or leave spec.storage.endpoint out"
    )
    spec["storage"] = {"endpoint": PLATFORM.storage.endpoint}
    assert run(spec).mistakes == ()


def test_a_manifest_that_the_stages_would_refuse_is_not_accepted():
    platform = Platform(storage={"url": "s3://models", "endpoint": None, "region": "eu-west-1"})
    body = {
        "apiVersion": "agentrl.dev/v1alpha1",
        "kind": "AgentRLRun",
        "metadata": {"name": "demo", "namespace": "kubeflow", "uid": run().uid, "generation": 1},
        "spec": SPEC,
    }
    assert read(body, platform).mistakes == ()
    long_url = Platform(storage={"url": "s3://models/" + "a" * 600, "endpoint": "http://s3"})
    (mistake,) = read(body, long_url).mistakes
    assert mistake.startswith("with the values of this platform, spec.storage.url: ")


def many_sizes(platform, **compute):
    memory = ("1Gi", "2Gi", "3Gi", "3072Mi", "4Gi", "5Gi")
    environments = [
        {"name": f"env{n}", "builtin": "babyai", "memory": one} for n, one in enumerate(memory)
    ]
    ray = {"ray": "cluster", "image": "registry.test/agentrl@sha256:" + "0" * 64}
    spec = SPEC | {"environments": environments, "compute": ray | compute}
    body = {
        "apiVersion": "agentrl.dev/v1alpha1",
        "kind": "AgentRLRun",
        "metadata": {"name": "demo", "namespace": "kubeflow", "uid": run().uid, "generation": 1},
        "spec": spec,
    }
    return read(body, platform)


def test_a_run_with_more_pod_sets_than_kueue_takes_is_not_accepted():
    whole_runs = Platform(kueue={"admission": "run"})
    resource = many_sizes(whole_runs, queue="training")
    assert resource.run is None
    assert resource.mistakes == (
        "spec.environments: the run needs 9 pod sets of Kueue, and 8 are allowed; give more "
        "environments the same cpu, memory, nodeSelector and tolerations, so that they share "
        "a pod set, or let an administrator raise kueue.maxPodSets, if this Kueue allows more",
    )
    newer = Platform(kueue={"admission": "run", "maxPodSets": 9})
    assert many_sizes(newer, queue="training").mistakes == ()
    assert many_sizes(whole_runs).mistakes == ()
    assert many_sizes(Platform(), queue="training").mistakes == ()


def test_aws_is_accepted_only_where_the_platform_lists_it():
    body = {
        "apiVersion": "agentrl.dev/v1alpha1",
        "kind": "AgentRLRun",
        "metadata": {"name": "demo", "namespace": "kubeflow", "uid": run().uid, "generation": 1},
        "spec": SPEC | {"storage": {"url": "s3://models/a", "region": "eu-west-1"}},
    }
    keys = {"accessKeyEnv": "AWS_KEY", "secretKeyEnv": "AWS_SECRET"}
    listed = Platform(storage={"others": [{"secret": {"name": "aws"}, **keys}]})
    assert "AWS S3 is not an object store" in read(body, PLATFORM).mistakes[0]
    assert read(body, listed).mistakes == ()


@pytest.mark.parametrize("uri", ["http://mlflow:5000", "https://mlflow.team.test/base"])
def test_the_operator_contacts_the_tracking_servers_of_the_platform(uri):
    assert tracking_uri(tracked_at(uri), TRACKED) == uri


@pytest.mark.parametrize(
    "uri",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://kubernetes.default.svc",
        "https://mlflow.team.test/base/../admin",
        "http://mlflow:5001",
    ],
)
def test_the_operator_sends_nothing_to_a_tracking_server_that_is_not_listed(uri):
    resource = tracked_at(uri)
    assert stage_tracking_uri(resource, TRACKED) == uri
    assert tracking_uri(resource, TRACKED) is None


def test_a_tracking_server_behind_the_name_of_a_listed_one_is_refused():
    resource = tracked_at("http://mlflow:5000@evil.test")
    assert resource.run is None
    (mistake,) = resource.mistakes
    assert mistake.startswith("spec.tracking.uri: contains a user or a password, ")
    assert tracking_uri(resource, TRACKED) == "http://mlflow:5000"  # that of the platform


@pytest.mark.parametrize("uri", ["sqlite:///mlflow.db", "/data/mlruns", "file:///data", "mlruns"])
def test_a_tracking_server_that_is_a_file_is_not_accepted(uri):
    resource = tracked_at(uri)
    assert resource.run is None
    assert resource.mistakes == (
        "spec.tracking.uri: pods share no folder and no database file; use the http:// or "
        "https:// address of an MLflow server, or omit the field",
    )


@pytest.mark.parametrize("uri", ["http://mlflow:5000", "HTTPS://mlflow.test"])
def test_a_tracking_server_over_http_is_accepted(uri):
    assert tracked_at(uri).mistakes == ()


def test_without_a_uri_a_run_is_tracked_where_the_platform_says():
    assert tracking_uri(run(), TRACKED) == "http://mlflow:5000"
    assert tracking_uri(run(), Platform()) is None


def test_a_volume_in_the_place_of_the_certificates_is_not_accepted():
    platform = Platform(ca_bundle={"config_map": "ca"})
    volumes = [{"claim": "ca", "path": "/models"}, {"claim": "data", "path": "/etc"}]
    body = {
        "apiVersion": "agentrl.dev/v1alpha1",
        "kind": "AgentRLRun",
        "metadata": {"name": "demo", "namespace": "kubeflow", "uid": run().uid, "generation": 1},
        "spec": SPEC | {"compute": {"volumes": volumes}},
    }
    served = {"name": "own", "image": "a/b:1", "volumes": volumes}
    in_servers = body | {"spec": SPEC | {"environments": [served]}}
    for content, where in ((body, "spec.compute"), (in_servers, "spec.environments[0]")):
        assert read(content, Platform()).mistakes == ()
        assert read(content, platform).mistakes == (
            f"{where}.volumes[0].claim: ca is the name of the volume with the certificates of this "
            "platform; use another claim",
            f"{where}.volumes[1].path: /etc is where pods have the certificates of this platform; "
            "choose another path, such as /models",
        )


@pytest.mark.parametrize(
    ("environment", "mistake"),
    [
        (
            {"builtin": "babyai", "options": {"levelz": 3}},
            "spec.environments[0].options.levelz: babyai has no such option; see "
            "`agentrl envs list babyai`",
        ),
        (
            {"url": "http://a.test", "protocol": "openenv", "options": {"seeds": 3}},
            "spec.environments[0].options.seeds: protocol openenv has no such option; use one of "
            "train, heldout, actionField, observationField, fullScore, instructions",
        ),
    ],
)
def test_a_wrong_option_of_an_environment_is_not_accepted(environment, mistake):
    resource = run(SPEC | {"environments": [{"name": "one", **environment}]})

    assert (resource.run, resource.mistakes) == (None, (mistake,))


@pytest.mark.parametrize(
    "environment",
    [
        {"builtin": "search", "options": {"corpus": ["/data/a"], "questions": QUESTIONS}},
        {"builtin": "never_installed:Tasks", "image": "registry.test/a:1", "options": {"a": 1}},
        {"builtin": "json:JSONDecoder", "options": {"a": 1}},
    ],
)
def test_what_only_the_pods_of_an_environment_can_check_is_accepted(environment):
    """Files that only they have, and classes of other packages, which are not imported."""
    assert run(SPEC | {"environments": [{"name": "one", **environment}]}).mistakes == ()
