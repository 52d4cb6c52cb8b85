import base64
import json
import re

from demo_run import PLATFORM, SPEC, UID, run

from agentrl_components.spec.rules.environments.servers import RESERVED_VARIABLES
from agentrl_operator.manifests import environment_server
from agentrl_pipelines.kfp_pipeline.pipeline_spec import phase_pipeline
from agentrl_pipelines.platform import resolve
from agentrl_pipelines.platform.config import CaBundle, Kueue, Proxy
from agentrl_pipelines.platform.kueue_pods import PodSetInfo

SERVED = SPEC | {
    "environments": [
        {
            "name": "babyai",
            "builtin": "babyai",
            "options": {"levels": ["GoToDoor"], "text": "terse"},
            "replicas": 2,
            "cpu": "500m",
            "memory": "1Gi",
        },
        {"name": "own", "image": "registry.test/own:1"},
    ],
    "compute": {"queue": "team-a"},
}


def made(index=0, spec=SERVED, platform=PLATFORM):
    resource = run(spec)
    environment = resource.run.spec.environments[index]
    return environment_server.deployment(resource, resource.run, environment, platform)


def container(index=0):
    return made(index)["spec"]["template"]["spec"]["containers"][0]


def test_a_builtin_environment_is_served_by_our_image_with_its_options_as_json():
    assert container()["image"] == PLATFORM.images.environment
    assert container()["command"] == [
        "agentrl",
        "envs",
        "serve",
        "babyai",
        "--options",
        'levels=["GoToDoor"]',
        "--options",
        'text="terse"',
        "--host",
        "::",
        "--port",
        "8080",
        "--token-env",
        "AGENTRL_ENV_TOKEN",
        "--timeout",
        "3600",
    ]


def test_a_custom_image_keeps_its_entrypoint_and_gets_port_and_token():
    assert container(1)["image"] == "registry.test/own:1"
    assert "command" not in container(1)
    assert {"name": "PORT", "value": "8080"} in container(1)["env"]
    assert {
        "name": "AGENTRL_ENV_TOKEN",
        "valueFrom": {"secretKeyRef": {"name": "demo-6a1b2c3d-token", "key": "token"}},
    } in container(1)["env"]


def test_a_builtin_with_an_image_is_served_by_that_image():
    own = {"name": "own", "builtin": "my_package.world:MyTasks", "image": "a/b:1"}
    (server,) = made(spec=SERVED | {"environments": [own]})["spec"]["template"]["spec"][
        "containers"
    ]
    assert server["image"] == "a/b:1"
    assert server["command"][:4] == ["agentrl", "envs", "serve", "my_package.world:MyTasks"]


def test_secrets_are_passed_by_reference_to_servers_and_to_nothing_else():
    own = [{"name": "JUDGE_KEY", "secret": "judge", "key": "api-key"}]
    spec = SERVED | {"environments": [{"name": "own", "image": "a/b:1", "secretEnv": own}]}
    (server,) = made(spec=spec)["spec"]["template"]["spec"]["containers"]
    assert {
        "name": "JUDGE_KEY",
        "valueFrom": {"secretKeyRef": {"name": "judge", "key": "api-key"}},
    } in server["env"]

    effective = resolve.cluster_manifest(run(spec).run, UID, PLATFORM).model_dump_json(
        by_alias=True
    )
    assert "judge" not in effective
    assert "judge" not in json.dumps(phase_pipeline(run(spec).run, UID, PLATFORM))


def test_servers_run_on_the_nodes_and_with_the_variables_of_their_environment():
    own = {
        "name": "own",
        "image": "a/b:1",
        "nodeSelector": {"pool": "cpu"},
        "tolerations": [{"key": "cpu-only", "operator": "Exists"}],
        "env": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
    }
    compute = {"podLabels": {"team": "agents"}, "podAnnotations": {"cost": "research"}}
    spec = SERVED | {"environments": [own], "compute": compute}
    template = made(spec=spec)["spec"]["template"]
    (server,) = template["spec"]["containers"]
    assert {"name": "HTTPS_PROXY", "value": "http://proxy:3128"} in server["env"]
    assert template["spec"]["nodeSelector"] == {"pool": "cpu"}
    assert template["spec"]["tolerations"] == [{"key": "cpu-only", "operator": "Exists"}]
    assert template["metadata"]["labels"]["team"] == "agents"
    assert template["metadata"]["annotations"] == {"cost": "research"}
    assert "team" not in made(spec=spec)["spec"]["selector"]["matchLabels"]

    resolved = resolve.cluster_manifest(run(spec).run, UID, PLATFORM).spec.environments[0]
    assert (resolved.env, resolved.node_selector, resolved.tolerations) == ((), {}, ())


def test_servers_mount_the_claims_of_their_environment():
    volumes = [{"claim": "wiki", "path": "/data/wiki"}, {"claim": "index", "path": "/index"}]
    spec = SERVED | {"environments": [{"name": "own", "image": "a/b:1", "volumes": volumes}]}
    pod = made(spec=spec)["spec"]["template"]["spec"]
    assert pod["volumes"] == [
        {"name": "tmp", "emptyDir": {"sizeLimit": "4Gi"}},
        {"name": "wiki", "persistentVolumeClaim": {"claimName": "wiki"}},
        {"name": "index", "persistentVolumeClaim": {"claimName": "index"}},
    ]
    assert pod["containers"][0]["volumeMounts"] == [
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "wiki", "mountPath": "/data/wiki"},
        {"name": "index", "mountPath": "/index"},
    ]
    assert "wiki" not in json.dumps(phase_pipeline(run(spec).run, UID, PLATFORM))


def test_no_secret_replaces_a_variable_that_every_server_gets():
    assert {variable["name"] for variable in container()["env"]} == RESERVED_VARIABLES


def test_pods_comply_with_the_restricted_pod_security_standard():
    pod = made()["spec"]["template"]["spec"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert {"hostNetwork", "hostPID", "hostIPC"}.isdisjoint(pod)
    assert pod["volumes"] == [{"name": "tmp", "emptyDir": {"sizeLimit": "4Gi"}}]
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_servers_request_the_resources_of_the_manifest_and_have_probes():
    assert made()["spec"]["replicas"] == 2
    assert container()["resources"] == {
        "requests": {"cpu": "500m", "memory": "1Gi"},
        "limits": {"memory": "1Gi"},
    }
    assert container()["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    assert container()["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}


def test_the_deployment_and_its_pods_have_the_queue_label():
    label = {"kueue.x-k8s.io/queue-name": "team-a"}
    assert made()["metadata"]["labels"].items() >= label.items()
    assert made()["spec"]["template"]["metadata"]["labels"].items() >= label.items()
    without = made(spec=SERVED | {"compute": {}})
    assert label.keys().isdisjoint(without["spec"]["template"]["metadata"]["labels"])


def test_servers_have_no_queue_label_where_kueue_admits_whole_runs():
    whole = made(platform=PLATFORM.model_copy(update={"kueue": Kueue(admission="run")}))
    labels = whole["metadata"]["labels"] | whole["spec"]["template"]["metadata"]["labels"]
    assert "kueue.x-k8s.io/queue-name" not in labels


def test_service_and_deployment_select_only_the_pods_of_this_run():
    resource = run(SERVED)
    service = environment_server.service(resource, resource.run.spec.environments[0])
    labels = made()["spec"]["template"]["metadata"]["labels"]

    assert service["spec"]["selector"] == made()["spec"]["selector"]["matchLabels"]
    assert service["spec"]["selector"] == {
        "agentrl.dev/run-uid": UID,
        "agentrl.dev/environment": "babyai",
    }
    assert labels.items() >= service["spec"]["selector"].items()


def test_servers_have_no_sidecar_of_istio():
    assert made()["spec"]["template"]["metadata"]["labels"]["sidecar.istio.io/inject"] == "false"


def test_servers_run_on_the_nodes_that_kueue_assigned():
    resource = run(SERVED)
    environment = resource.run.spec.environments[0]
    spot = PodSetInfo(
        node_selector={"kind": "spot"}, tolerations=({"key": "spot", "operator": "Exists"},)
    )
    chosen = environment_server.deployment(resource, resource.run, environment, PLATFORM, spot)
    pod = chosen["spec"]["template"]["spec"]

    assert pod["nodeSelector"] == {"kind": "spot"}
    assert pod["tolerations"] == [{"key": "spot", "operator": "Exists"}]
    annotation = chosen["metadata"]["annotations"]["agentrl.dev/fingerprint"]
    same = environment_server.fingerprint(resource, resource.run, environment, PLATFORM, spot)
    assert annotation == same
    assert annotation != environment_server.fingerprint(
        resource, resource.run, environment, PLATFORM
    )


def test_pod_metadata_from_admission_checks_does_not_change_the_selector():
    resource = run(SERVED)
    environment = resource.run.spec.environments[0]
    room = PodSetInfo(
        pod_labels={"cost-center": "7", "agentrl.dev/environment": "another"},
        pod_annotations={"consume-provisioning-request": "room-1"},
    )
    chosen = environment_server.deployment(resource, resource.run, environment, PLATFORM, room)
    carried = chosen["spec"]["template"]["metadata"]

    assert carried["annotations"] == {"consume-provisioning-request": "room-1"}
    assert carried["labels"]["cost-center"] == "7"
    assert carried["labels"]["agentrl.dev/environment"] == "babyai"
    assert "annotations" not in made()["spec"]["template"]["metadata"]


def test_servers_that_kueue_admits_as_pods_name_their_priority_class():
    resource = run(SERVED, labels={"kueue.x-k8s.io/priority-class": "urgent"})
    named = environment_server.deployment(
        resource, resource.run, resource.run.spec.environments[0], PLATFORM
    )
    for labels in (
        named["metadata"]["labels"],
        named["spec"]["template"]["metadata"]["labels"],
    ):
        assert labels["kueue.x-k8s.io/queue-name"] == "team-a"
        assert labels["kueue.x-k8s.io/priority-class"] == "urgent"


def test_every_object_is_owned_by_the_run_and_has_a_valid_name():
    long = "a" * 52
    resource = run(SERVED, name=long)
    environment = resource.run.spec.environments[0]
    for child in (
        environment_server.token_secret(resource, "t"),
        environment_server.service(resource, environment),
        environment_server.deployment(resource, resource.run, environment, PLATFORM),
    ):
        owner = child["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("AgentRLRun", long, UID)
        assert owner["controller"] is True
        assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", child["metadata"]["name"])
        assert all(len(value) <= 63 for value in child["metadata"]["labels"].values())


def test_stages_read_the_token_from_the_secret_that_the_operator_creates():
    resource = run(SERVED)
    secret = environment_server.token_secret(resource, "very secret")

    assert base64.b64decode(secret["data"]["token"]) == b"very secret"
    bound = json.dumps(phase_pipeline(resource.run, UID, PLATFORM))
    assert f'"secretName": "{secret["metadata"]["name"]}"' in bound


def test_the_fingerprint_changes_with_every_field_of_the_deployment():
    resource = run(SERVED)
    environment = resource.run.spec.environments[0]
    annotation = made()["metadata"]["annotations"]["agentrl.dev/fingerprint"]
    assert annotation == environment_server.fingerprint(
        resource, resource.run, environment, PLATFORM
    )
    other = PLATFORM.model_copy(
        update={"images": PLATFORM.images.model_copy(update={"environment": "newer:2"})}
    )
    assert annotation != environment_server.fingerprint(resource, resource.run, environment, other)


def test_the_service_is_headless():
    resource = run(SERVED)
    for environment in resource.run.spec.environments:
        assert environment_server.service(resource, environment)["spec"]["clusterIP"] == "None"


def test_an_edit_of_a_mutable_field_updates_the_deployment():
    before = made()["metadata"]["annotations"]["agentrl.dev/fingerprint"]
    usual = SERVED["environments"][0]
    secret = [{"name": "KEY", "secret": "judge", "key": "key"}]
    edits = ({"replicas": 3}, {"cpu": "1"}, {"memory": "2Gi"}, {"secretEnv": secret})
    edits += ({"nodeSelector": {"pool": "a"}}, {"env": [{"name": "A", "value": "b"}]})
    edits += ({"volumes": [{"claim": "wiki", "path": "/data"}]},)
    for edit in edits:
        after = made(spec=SERVED | {"environments": [usual | edit]})
        assert after["metadata"]["annotations"]["agentrl.dev/fingerprint"] != before
    same = made(spec=SERVED | {"environments": [usual | {"timeoutS": 9.0}]})
    assert same["metadata"]["annotations"]["agentrl.dev/fingerprint"] == before


def test_a_server_without_a_memory_field_gets_what_its_environment_needs():
    environment = {"name": "walk", "builtin": "corridor"}
    resources = made(spec=SPEC | {"environments": [environment]})["spec"]["template"]["spec"][
        "containers"
    ][0]["resources"]
    assert resources["requests"]["memory"] == resources["limits"]["memory"] == "256Mi"


def test_an_environment_that_needs_java_is_served_by_the_image_that_has_it():
    lab = {"name": "lab", "builtin": "sciworld"}
    for environment, image in (
        (lab, PLATFORM.images.environment_science),
        ({"name": "lab", "image": "registry.test/own:1"}, "registry.test/own:1"),
    ):
        manifest = made(spec=SPEC | {"environments": [environment]})
        (container,) = manifest["spec"]["template"]["spec"]["containers"]
        assert container["image"] == image
    (container,) = made(spec=SPEC | {"environments": [lab]})["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["resources"]["limits"]["memory"] == "1536Mi"


def test_servers_trust_the_authorities_of_the_platform_and_use_its_proxy():
    platform = PLATFORM.model_copy(
        update={"ca_bundle": CaBundle(config_map="ca"), "proxy": Proxy(https="http://proxy:3128")}
    )
    own = {"name": "SSL_CERT_FILE", "value": "/own.pem"}
    environment = {"name": "search", "builtin": "search", "env": [own]}
    pod = made(spec=SPEC | {"environments": [environment]}, platform=platform)["spec"]["template"][
        "spec"
    ]
    variables = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
    assert variables["HTTPS_PROXY"] == variables["https_proxy"] == "http://proxy:3128"
    assert variables["REQUESTS_CA_BUNDLE"] == "/etc/agentrl-ca/ca.crt"
    assert variables["SSL_CERT_FILE"] == "/own.pem"
    assert len(variables) == len(pod["containers"][0]["env"])
    assert {"name": "ca", "configMap": {"name": "ca"}} in pod["volumes"]
    mount = {"name": "ca", "mountPath": "/etc/agentrl-ca", "readOnly": True}
    assert mount in pod["containers"][0]["volumeMounts"]
