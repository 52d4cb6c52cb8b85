"""The platform configuration of the operator."""

from fnmatch import fnmatch
from pathlib import Path

import pytest
from rendered import Manifest, Render, settings, the

from agentrl_components.spec.fields.pods import Variable
from agentrl_pipelines.platform import config
from agentrl_pipelines.platform.outbound import CA_FOLDER, pod_variables


def test_the_defaults_match_the_manifests_of_kubeflow_pipelines(
    render: Render, tmp_path: Path
) -> None:
    told = settings(render(), tmp_path)
    assert told.kfp.url == "http://ml-pipeline.kubeflow.svc:8888"
    assert (told.kfp.namespace, told.kfp.multi_user, told.kfp.token_file) == (
        "kubeflow",
        False,
        None,
    )
    assert told.storage.url == "s3://mlpipeline/agentrl"
    assert told.storage.endpoint == "http://minio-service.kubeflow.svc:9000"
    assert told.storage.secret == config.StorageSecret(
        name="mlpipeline-minio-artifact", access_key="accesskey", secret_key="secretkey"
    )
    assert told.tracking == config.Mlflow(uri=None, ui_url=None)
    assert told.images.stage == "ghcr.io/agentrl/agentrl:0.1.0"
    assert told.kueue == config.Kueue(admission="pods", max_pod_sets=8)
    assert told.poll_seconds == 5


def test_an_external_store_and_tracker_are_configured(render: Render, tmp_path: Path) -> None:
    values = {
        "storage": {
            "url": "s3://models/agents",
            "region": "eu-west-1",
            "existingSecret": "keys",
            "accessKey": "AK",
            "secretKey": "SK",
        },
        "tracking": {"uri": "https://mlflow.example.org"},
        "images": {
            "stage": {"repository": "registry:5000/agentrl", "digest": "sha256:" + "0" * 64},
            "environmentScience": {"repository": "registry:5000/science", "tag": "2"},
        },
        "kueue": {"admission": "run", "maxPodSets": 18},
        "pollSeconds": 0.5,
    }
    told = settings(render(values), tmp_path)
    assert (told.storage.url, told.storage.endpoint) == ("s3://models/agents", None)
    assert told.storage.region == "eu-west-1"
    assert told.storage.secret == config.StorageSecret(
        name="keys", access_key="AK", secret_key="SK"
    )
    assert told.tracking.uri == "https://mlflow.example.org"
    assert told.images.stage == "registry:5000/agentrl@sha256:" + "0" * 64
    assert told.images.of("envs-science") == "registry:5000/science:2"
    assert told.images.of("envs-web") == "ghcr.io/agentrl/agentrl-envs-web:0.1.0"
    assert told.kueue == config.Kueue(admission="run", max_pod_sets=18)
    assert told.poll_seconds == 0.5


def test_other_stores_have_credentials_and_egress_of_their_own(
    render: Render, tmp_path: Path
) -> None:
    values = {
        "storage": {
            "others": [
                {
                    "endpoint": "http://minio.team.svc:9000",
                    "existingSecret": "team",
                    "accessKey": "a",
                },
                {"region": "eu-west-1", "existingSecret": "aws"},
            ]
        },
        "tracking": {"others": ["https://mlflow.example.org:8443"]},
    }
    objects = render(values)
    told = settings(objects, tmp_path)
    team, aws = told.storage.others
    assert (team.endpoint, team.region) == ("http://minio.team.svc:9000", None)
    assert team.secret == config.StorageSecret(name="team", access_key="a", secret_key="secretkey")
    assert (aws.endpoint, aws.region, aws.secret.name) == (None, "eu-west-1", "aws")
    assert told.tracking.others == ("https://mlflow.example.org:8443",)
    pod = the(objects, "Deployment", "agentrl")["spec"]["template"]["spec"]
    secrets = {
        one["name"]: one["valueFrom"]["secretKeyRef"]
        for one in pod["containers"][0]["env"]
        if "secretKeyRef" in one["valueFrom"]
    }
    for store in (told.storage, team, aws):
        secret = store.secret
        assert secrets[store.access_key_env] == {"name": secret.name, "key": secret.access_key}
        assert secrets[store.secret_key_env] == {"name": secret.name, "key": secret.secret_key}
    assert len(secrets) == 6
    egress = the(objects, "NetworkPolicy", "agentrl")["spec"]["egress"]
    for rule in (
        {"to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "team"}}}]},
        {"ports": [{"protocol": "TCP", "port": 443}]},
        {"ports": [{"protocol": "TCP", "port": 8443}]},
    ):
        assert rule in egress


def test_stores_that_are_opened_by_identity_need_no_secret(render: Render, tmp_path: Path) -> None:
    values = {
        "storage": {
            "url": "s3://models/agents",
            "region": "eu-west-1",
            "workloadIdentity": True,
            "others": [{"endpoint": "http://minio.team.svc:9000", "existingSecret": "team"}],
        }
    }
    objects = render(values)
    told = settings(objects, tmp_path)
    assert told.storage.secret is None
    assert told.storage.others[0].secret.name == "team"
    pod = the(objects, "Deployment", "agentrl")["spec"]["template"]["spec"]
    assert [one["name"] for one in pod["containers"][0]["env"]] == [
        "POD_NAMESPACE",
        "STORE_0_ACCESS_KEY",
        "STORE_0_SECRET_KEY",
    ]
    egress = the(objects, "NetworkPolicy", "agentrl")["spec"]["egress"]
    agent = [{"ipBlock": {"cidr": "169.254.170.23/32"}}, {"ipBlock": {"cidr": "fd00:ec2::23/128"}}]
    assert {"ports": [{"protocol": "TCP", "port": 80}], "to": agent} in egress
    assert {"ports": [{"protocol": "TCP", "port": 443}]} in egress


def test_another_store_may_be_the_one_that_is_opened_by_identity(
    render: Render, tmp_path: Path
) -> None:
    other = {"region": "eu-west-1", "workloadIdentity": True}
    objects = render({"storage": {"others": [other]}})
    told = settings(objects, tmp_path)
    assert told.storage.secret.name == "mlpipeline-minio-artifact"
    assert told.storage.others[0].secret is None


@pytest.mark.parametrize(
    ("more", "secret", "variables"),
    [
        (
            {"usernameKey": "user"},
            config.TrackingSecret(name="mlflow", username_key="user"),
            {"MLFLOW_TRACKING_USERNAME": "user", "MLFLOW_TRACKING_PASSWORD": "password"},
        ),
        (
            {"tokenKey": "token"},
            config.TrackingSecret(name="mlflow", token_key="token"),
            {"MLFLOW_TRACKING_TOKEN": "token"},
        ),
    ],
)
def test_credentials_for_mlflow_come_from_a_secret(
    render: Render,
    tmp_path: Path,
    more: Manifest,
    secret: config.TrackingSecret,
    variables: dict[str, str],
) -> None:
    tracking = {"uri": "https://mlflow.example.org", "existingSecret": "mlflow"} | more
    objects = render({"tracking": tracking})
    assert settings(objects, tmp_path).tracking.secret == secret
    pod = the(objects, "Deployment", "agentrl")["spec"]["template"]["spec"]
    assert {
        one["name"]: one["valueFrom"]["secretKeyRef"]
        for one in pod["containers"][0]["env"]
        if one["name"].startswith("MLFLOW")
    } == {name: {"name": "mlflow", "key": key} for name, key in variables.items()}


def test_minio_and_mlflow_for_trials_are_configured(
    render: Render, everything: Manifest, tmp_path: Path
) -> None:
    objects = render(everything)
    told = settings(objects, tmp_path)
    assert told.storage.url == "s3://agentrl"
    assert told.storage.endpoint == "http://agentrl-minio.kubeflow.svc:9000"
    assert told.tracking.uri == "http://agentrl-mlflow.kubeflow.svc:5000"
    secret = the(objects, "Secret", told.storage.secret.name)
    assert set(secret["data"]) == {told.storage.secret.access_key, told.storage.secret.secret_key}
    bucket = the(objects, "Deployment", "agentrl-minio")["spec"]["template"]["spec"][
        "initContainers"
    ][0]
    assert bucket["command"][-1] == "/data/agentrl"


def accepts(patterns: list[str], value: str) -> bool:
    """Whether a host or origin matches a pattern, as in `mlflow.server.security_utils`."""
    return any(fnmatch(value, one) if "*" in one else value == one for one in patterns)


def mlflow_environment(objects: list[Manifest]) -> dict[str, str]:
    server = the(objects, "Deployment", "agentrl-mlflow")
    variables = server["spec"]["template"]["spec"]["containers"][0]["env"]
    return {one["name"]: one["value"] for one in variables}


def test_mlflow_accepts_the_names_of_its_service_and_the_configured_ones(
    render: Render, everything: Manifest
) -> None:
    environment = mlflow_environment(render(everything))
    assert {
        "localhost:*",
        "agentrl-mlflow.kubeflow.svc:*",
        "agentrl-mlflow.kubeflow.svc.cluster.local:*",
        "mlflow.example.org",
    } <= set(environment["MLFLOW_SERVER_ALLOWED_HOSTS"].split(","))


@pytest.mark.parametrize(
    "values",
    [
        {"mlflow": {"enabled": True, "allowedHosts": ["mlflow.example.org"]}},
        {
            "mlflow": {"enabled": True},
            "tracking": {"uiUrl": "https://mlflow.example.org:8443/mlflow"},
        },
    ],
)
def test_the_ui_of_mlflow_works_under_every_name_that_it_is_reached_by(
    render: Render, values: Manifest
) -> None:
    """MLflow checks the Host header of every request and the Origin header of those that can
    change state, such as POST. Its UI sends POST requests to load traces and child runs."""
    environment = mlflow_environment(render(values))
    hosts = environment["MLFLOW_SERVER_ALLOWED_HOSTS"].split(",")
    origins = environment["MLFLOW_SERVER_CORS_ALLOWED_ORIGINS"].split(",")
    for host in (
        "mlflow.example.org",
        "mlflow.example.org:8443",
        "agentrl-mlflow.kubeflow.svc:5000",
    ):
        assert accepts(hosts, host)
        for scheme in ("http", "https"):
            assert accepts(origins, f"{scheme}://{host}")
    assert not accepts(hosts, "evil.example.org")
    for origin in ("https://evil.example.org", "https://mlflow.example.org.evil.test", "null"):
        assert not accepts(origins, origin)


def test_with_multi_user_kfp_the_operator_has_a_projected_token(
    render: Render, tmp_path: Path
) -> None:
    objects = render({"kfp": {"multiUser": True}})
    pod = the(objects, "Deployment", "agentrl")["spec"]["template"]["spec"]
    mount = next(m for m in pod["containers"][0]["volumeMounts"] if m["name"] == "kfp-token")
    volume = next(v for v in pod["volumes"] if v["name"] == "kfp-token")
    token = volume["projected"]["sources"][0]["serviceAccountToken"]
    assert token["audience"] == "pipelines.kubeflow.org"
    told = settings(objects, tmp_path)
    assert told.kfp.multi_user
    assert str(told.kfp.token_file) == f"{mount['mountPath']}/{token['path']}"


def test_the_operator_connects_as_the_pods_of_runs_do(render: Render, tmp_path: Path) -> None:
    values = {
        "caBundle": {"configMap": "corporate", "key": "bundle.pem"},
        "proxy": {"https": "http://proxy.corp.test:3128", "noProxy": [".corp.test"]},
        "kfp": {"namespace": "pipelines"},
        "tracking": {"uri": "http://mlflow:5000", "others": ["https://mlflow.example.org"]},
        "storage": {
            "url": "s3://models",
            "endpoint": "http://minio.data.svc:9000",
            "existingSecret": "keys",
        },
        "operator": {"extraEnv": [{"name": "AWS_CA_BUNDLE", "value": "/own.pem"}]},
    }
    objects = render(values)
    told = settings(objects, tmp_path)
    assert told.ca_bundle == config.CaBundle(config_map="corporate", key="bundle.pem")
    assert told.proxy.http is None
    inside = ("localhost", "127.0.0.1", ".svc", ".cluster.local", ".pipelines", ".kubeflow")
    named = ("metadata-grpc-service", "ml-pipeline", "minio-service", "seaweedfs")
    by_address = (
        "$(KUBERNETES_SERVICE_HOST)",
        "$(MINIO_SERVICE_SERVICE_HOST)",
        "$(ML_PIPELINE_SERVICE_HOST)",
        "$(METADATA_GRPC_SERVICE_SERVICE_HOST)",
    )
    called = ("ml-pipeline.pipelines.svc", "mlflow", "minio.data.svc")
    assert told.proxy.no_proxy == (
        *(*inside, *named, *by_address, *called),
        *("169.254.170.23", "fd00:ec2::23", ".corp.test"),
    )
    pod = the(objects, "Deployment", "agentrl")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    env = [(one["name"], one.get("value")) for one in container["env"]]
    own = [Variable(name="AWS_CA_BUNDLE", value="/own.pem")]
    shared = pod_variables(told, own)
    assert len(shared) == 8
    assert set(shared) <= set(env)
    assert [value for name, value in env if name == "AWS_CA_BUNDLE"] == ["/own.pem"]
    assert {"name": "ca-bundle", "configMap": {"name": "corporate"}} in pod["volumes"]
    mount = {"name": "ca-bundle", "mountPath": CA_FOLDER, "readOnly": True}
    assert mount in container["volumeMounts"]


def test_the_operator_may_reach_the_proxy(render: Render) -> None:
    policy = the(
        render({"proxy": {"http": "http://proxy.corp.test:3128"}}), "NetworkPolicy", "agentrl"
    )
    assert {"ports": [{"protocol": "TCP", "port": 3128}]} in policy["spec"]["egress"]
