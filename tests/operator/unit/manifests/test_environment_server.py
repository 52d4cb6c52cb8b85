import base64
import json
import re

from demo_run import PLATFORM, SPEC, UID, run

from agentrl_components.spec.rules.environments import RESERVED_VARIABLES
from agentrl_operator.manifests import environment_server
from agentrl_pipelines.kfp_pipeline.pipeline_spec import phase_pipeline
from agentrl_pipelines.platform import resolve
from agentrl_pipelines.platform.config import Kueue
from agentrl_pipelines.platform.kueue_pods import PodSetInfo

SERVED = SPEC | {
    "environments": [
        {
            "name": "babyai",
            "builtin": "babyai",
            "options": {"levels": ["GoToObj"], "seed": 3},
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
        'levels=["GoToObj"]',
        "--options",
        "seed=3",
        "--host",
        "0.0.0.0",
        "--port",
        "8080",
        "--token-env",
        "AGENTRL_ENV_TOKEN",
    ]


def test_an_image_of_ones_own_keeps_its_entrypoint_and_is_told_port_and_token():
    assert container(1)["image"] == "registry.test/own:1"
    assert "command" not in container(1)
    assert {"name": "PORT", "value": "8080"} in container(1)["env"]
    assert {
        "name": "AGENTRL_ENV_TOKEN",
        "valueFrom": {"secretKeyRef": {"name": "demo-6a1b2c3d-token", "key": "token"}},
    } in container(1)["env"]


def test_a_server_reads_its_secrets_by_name_and_they_are_told_nowhere():
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


def test_no_secret_takes_the_place_of_what_every_server_is_given():
    assert {variable["name"] for variable in container()["env"]} == RESERVED_VARIABLES


def test_pods_keep_to_the_restricted_pod_security_standard():
    pod = made()["spec"]["template"]["spec"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert {"hostNetwork", "hostPID", "hostIPC"}.isdisjoint(pod)
    assert all(set(volume) == {"name", "emptyDir"} for volume in pod["volumes"])
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_servers_ask_for_what_the_manifest_says_and_are_probed():
    assert made()["spec"]["replicas"] == 2
    assert container()["resources"] == {
        "requests": {"cpu": "500m", "memory": "1Gi"},
        "limits": {"memory": "1Gi"},
    }
    assert container()["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    assert container()["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}


def test_kueue_finds_its_queue_on_the_deployment_and_its_pods():
    label = {"kueue.x-k8s.io/queue-name": "team-a"}
    assert made()["metadata"]["labels"].items() >= label.items()
    assert made()["spec"]["template"]["metadata"]["labels"].items() >= label.items()
    without = made(spec=SERVED | {"compute": {}})
    assert label.keys().isdisjoint(without["spec"]["template"]["metadata"]["labels"])


def test_servers_name_no_queue_where_kueue_admits_the_run():
    whole = made(platform=PLATFORM.model_copy(update={"kueue": Kueue(admission="run")}))
    labels = whole["metadata"]["labels"] | whole["spec"]["template"]["metadata"]["labels"]
    assert "kueue.x-k8s.io/queue-name" not in labels


def test_the_service_and_the_deployment_select_the_pods_of_this_run_alone():
    resource = run(SERVED)
    service = environment_server.service(resource, resource.run.spec.environments[0])
    labels = made()["spec"]["template"]["metadata"]["labels"]

    assert service["spec"]["selector"] == made()["spec"]["selector"]["matchLabels"]
    assert service["spec"]["selector"] == {
        "agentrl.dev/run-uid": UID,
        "agentrl.dev/environment": "babyai",
    }
    assert labels.items() >= service["spec"]["selector"].items()


def test_servers_run_on_the_nodes_that_kueue_chose():
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


def test_what_lets_servers_onto_the_nodes_is_on_their_pods_and_changes_no_selector():
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


def test_servers_that_kueue_admits_by_themselves_name_their_priority_class():
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


def test_every_child_names_the_run_as_its_owner_and_has_a_name_kubernetes_takes():
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


def test_stages_read_the_token_from_the_secret_that_the_operator_makes():
    resource = run(SERVED)
    secret = environment_server.token_secret(resource, "very secret")

    assert base64.b64decode(secret["data"]["token"]) == b"very secret"
    bound = json.dumps(phase_pipeline(resource.run, UID, PLATFORM))
    assert f'"secretName": "{secret["metadata"]["name"]}"' in bound


def test_the_fingerprint_changes_with_anything_in_the_deployment():
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


def test_servers_are_found_by_their_own_addresses_and_take_none_of_the_clusters():
    resource = run(SERVED)
    for environment in resource.run.spec.environments:
        assert environment_server.service(resource, environment)["spec"]["clusterIP"] == "None"


def test_servers_are_brought_up_to_date_by_an_edit_of_what_may_change():
    before = made()["metadata"]["annotations"]["agentrl.dev/fingerprint"]
    usual = SERVED["environments"][0]
    secret = [{"name": "KEY", "secret": "judge", "key": "key"}]
    edits = ({"replicas": 3}, {"cpu": "1"}, {"memory": "2Gi"}, {"secretEnv": secret})
    for edit in edits:
        after = made(spec=SERVED | {"environments": [usual | edit]})
        assert after["metadata"]["annotations"]["agentrl.dev/fingerprint"] != before
    same = made(spec=SERVED | {"environments": [usual | {"timeoutS": 9.0}]})
    assert same["metadata"]["annotations"]["agentrl.dev/fingerprint"] == before
