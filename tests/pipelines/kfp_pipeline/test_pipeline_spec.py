"""The pipeline of a phase, from the manifest and the platform."""

import copy
from pathlib import Path

import pytest
import yaml
from cluster_run import MANIFEST, UID, manifest
from google.protobuf.json_format import MessageToDict
from kfp import dsl, kubernetes

from agentrl_components.spec import parse
from agentrl_pipelines.kfp_pipeline import graph
from agentrl_pipelines.kfp_pipeline.pipeline_spec import config_map_mount, phase_pipeline
from agentrl_pipelines.platform.config import Kueue, Platform
from agentrl_pipelines.platform.kueue_pods import KueueAdmission, PodSetInfo

IR = Path(graph.__file__).parent / "ir"


def executors(bound: dict) -> tuple[dict, dict]:
    pods = bound["platform_spec"]["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    return bound["pipeline_spec"]["deploymentSpec"]["executors"], pods


@pytest.mark.parametrize("placement", ["colocated", "disaggregated"])
def test_the_shipped_graph_equals_the_compiled_one(tmp_path, placement):
    graph.write(placement, tmp_path / "graph.yaml")
    assert (IR / f"{placement}.yaml").read_text() == (tmp_path / "graph.yaml").read_text()


def test_each_stage_has_its_own_pod_and_is_not_cached():
    bound = phase_pipeline(manifest(), UID, Platform())
    containers, _ = executors(bound)
    stages = ["provision", "rollout", "update", "evaluate", "expand", "settle"]
    assert {c["container"]["command"][-1] for c in containers.values()} == set(stages)
    tasks = bound["pipeline_spec"]["components"]["comp-exit-handler-1"]["dag"]["tasks"]
    assert list(tasks) == ["evaluate", "expand", "provision", "rollout", "update"]
    assert tasks["rollout"]["dependentTasks"] == tasks["update"]["dependentTasks"] == ["provision"]
    assert tasks["evaluate"]["dependentTasks"] == ["rollout", "update"]
    assert all(task["cachingOptions"] == {} for task in tasks.values())


def test_retries_have_no_time_limit_of_an_hour():
    bound = phase_pipeline(manifest(), UID, Platform())
    tasks = bound["pipeline_spec"]["components"]["comp-exit-handler-1"]["dag"]["tasks"]
    assert tasks["rollout"]["retryPolicy"] == {
        "maxRetryCount": 5,
        "backoffDuration": "5s",
        "backoffFactor": 2.0,
        "backoffMaxDuration": "315360000s",
    }
    assert "retryPolicy" not in bound["pipeline_spec"]["root"]["dag"]["tasks"]["exit-handler-1"]


def test_stages_with_a_model_have_more_shared_memory_than_containers_by_default():
    _, pods = executors(phase_pipeline(manifest(), UID, Platform()))
    shared = {"volumeName": "shared-memory", "mountPath": "/dev/shm", "medium": "Memory"}
    have = {name for name, options in pods.items() if shared in options["emptyDirMounts"]}
    assert have == {"exec-rollout", "exec-update", "exec-evaluate"}


def test_devices_nodes_and_queues_are_those_of_the_manifest():
    containers, pods = executors(phase_pipeline(manifest(), UID, Platform()))
    assert containers["exec-update"]["container"]["resources"] == {
        "resourceCpuRequest": "2",
        "resourceMemoryRequest": "8Gi",
        "resourceMemoryLimit": "8Gi",
        "accelerator": {"resourceType": "nvidia.com/gpu", "resourceCount": "1"},
    }
    assert "accelerator" not in containers["exec-expand"]["container"]["resources"]
    assert pods["exec-update"]["nodeSelector"] == {"labels": {"gpu": "h200"}}
    assert pods["exec-update"]["tolerations"] == [
        {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    ]
    assert "tolerations" not in pods["exec-expand"]
    assert pods["exec-expand"]["podMetadata"]["labels"] == {
        "agentrl.dev/run": "walk",
        "agentrl.dev/stage": "expand",
        "kueue.x-k8s.io/queue-name": "lab",
    }


CORPUS = {"volumes": [{"claim": "corpus", "path": "/data"}], "memory": "64Gi"}


def test_provision_opens_environments_without_servers_with_the_volumes_of_the_other_stages():
    """Regression: a corpus on a claim was not found, and an index did not fit in 1 GiB."""
    containers, pods = executors(phase_pipeline(manifest(**CORPUS), UID, Platform()))
    assert containers["exec-provision"]["container"]["resources"] == {
        "resourceCpuRequest": "2",
        "resourceMemoryRequest": "64Gi",
        "resourceMemoryLimit": "64Gi",
    }
    for field in ("pvcMount", "nodeSelector", "tolerations"):
        assert pods["exec-provision"][field] == pods["exec-rollout"][field]
    assert {"pvcMount", "nodeSelector"}.isdisjoint(pods["exec-expand"])


def test_provision_is_small_if_every_environment_has_servers():
    read = yaml.safe_load(MANIFEST)
    read["spec"]["compute"] |= CORPUS
    read["spec"]["environments"][1]["replicas"] = 1
    containers, pods = executors(phase_pipeline(parse(read), UID, Platform()))
    assert containers["exec-provision"]["container"]["resources"]["resourceMemoryLimit"] == "1Gi"
    assert {"pvcMount", "nodeSelector", "tolerations"}.isdisjoint(pods["exec-provision"])


def test_pods_have_no_queue_label_if_kueue_admits_whole_runs():
    _, pods = executors(phase_pipeline(manifest(), UID, Platform(kueue=Kueue(admission="run"))))
    labels = [pod["podMetadata"]["labels"] for pod in pods.values()]
    assert labels
    assert not [one for one in labels if "kueue.x-k8s.io/queue-name" in one]


SPOT = PodSetInfo(
    node_selector={"kind": "spot"},
    tolerations=(
        {"key": "spot", "effect": "NoSchedule"},
        {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
    ),
)


def test_stages_run_on_the_nodes_of_their_flavors():
    queued = KueueAdmission(
        pod_sets={"rollout": SPOT, "update": PodSetInfo(node_selector={"kind": "owned"})}
    )
    platform = Platform(kueue=Kueue(admission="run"))
    _, pods = executors(phase_pipeline(manifest(), UID, platform, queued))
    own = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    spot = {"key": "spot", "operator": "Equal", "effect": "NoSchedule"}
    assert pods["exec-rollout"]["nodeSelector"] == {"labels": {"gpu": "h200", "kind": "spot"}}
    assert pods["exec-rollout"]["tolerations"] == [own, spot]  # without duplicates
    assert pods["exec-update"]["nodeSelector"] == {"labels": {"gpu": "h200", "kind": "owned"}}
    assert pods["exec-update"]["tolerations"] == [own]
    for stage in ("exec-evaluate", "exec-provision"):
        assert pods[stage]["nodeSelector"] == pods["exec-rollout"]["nodeSelector"]
    assert "nodeSelector" not in pods["exec-expand"]


def test_pods_have_the_metadata_of_admission_checks_without_overriding_their_own():
    info = PodSetInfo(
        pod_labels={"cost-center": "7", "agentrl.dev/stage": "another"},
        pod_annotations={"consume-provisioning-request": "room-1"},
    )
    _, pods = executors(
        phase_pipeline(manifest(), UID, Platform(), KueueAdmission(pod_sets={"rollout": info}))
    )
    metadata = {name: pod["podMetadata"] for name, pod in pods.items()}
    expected = {"consume-provisioning-request": "room-1"}
    assert metadata["exec-rollout"]["annotations"] == expected
    assert metadata["exec-rollout"]["labels"]["cost-center"] == "7"
    assert metadata["exec-rollout"]["labels"]["agentrl.dev/stage"] == "rollout"
    assert metadata["exec-evaluate"]["annotations"] == expected
    assert "annotations" not in metadata["exec-update"]
    assert "annotations" not in metadata["exec-expand"]


def test_train_and_evaluate_use_the_same_pod_set():
    bare = manifest(placement="colocated", nodeSelector={}, tolerations=[])
    _, pods = executors(
        phase_pipeline(bare, UID, Platform(), KueueAdmission(pod_sets={"train": SPOT}))
    )
    assert pods["exec-train"]["nodeSelector"] == {"labels": {"kind": "spot"}}
    assert pods["exec-evaluate"]["nodeSelector"] == {"labels": {"kind": "spot"}}
    _, elsewhere = executors(phase_pipeline(bare, UID, Platform()))
    assert "nodeSelector" not in elsewhere["exec-train"]
    assert "tolerations" not in elsewhere["exec-train"]


def test_pods_that_kueue_admits_singly_have_the_priority_class_label():
    urgent, key = KueueAdmission(priority_class="urgent"), "kueue.x-k8s.io/priority-class"

    def named(platform, **compute):
        _, pods = executors(phase_pipeline(manifest(**compute), UID, platform, urgent))
        return {pod["podMetadata"]["labels"].get(key) for pod in pods.values()}

    assert named(Platform()) == {"urgent"}
    assert named(Platform(), queue=None) == {None}
    assert named(Platform(kueue=Kueue(admission="run"))) == {None}


def test_all_stages_have_the_environment_variables_of_the_manifest():
    own = [{"name": "HF_ENDPOINT", "value": "https://hub.example.org"}]
    containers, _ = executors(phase_pipeline(manifest(env=own), UID, Platform()))
    assert [one["container"]["env"] for one in containers.values()] == [own] * len(containers)
    containers, _ = executors(phase_pipeline(manifest(), UID, Platform()))
    assert not any("env" in one["container"] for one in containers.values())


def secrets_of_rollout(run, platform):
    """(Secret, key, variable) of each variable from a Secret of the stage rollout."""
    _, pods = executors(phase_pipeline(run, UID, platform))
    return {
        (one["secretName"], pair["secretKey"], pair["envVar"])
        for one in pods["exec-rollout"]["secretAsEnv"]
        for pair in one["keyToEnv"]
    }


def test_secrets_are_referenced_by_name_only():
    assert secrets_of_rollout(manifest(), Platform()) == {
        ("mlpipeline-minio-artifact", "accesskey", "AWS_ACCESS_KEY_ID"),
        ("mlpipeline-minio-artifact", "secretkey", "AWS_SECRET_ACCESS_KEY"),
        ("walk-6f1e2d3c-token", "token", "AGENTRL_ENV_TOKEN"),
        ("web", "token", "WEB_TOKEN"),
    }


def test_a_run_with_its_own_keys_does_not_get_the_platforms():
    own = [{"name": "AWS_ACCESS_KEY_ID", "secret": "mine", "key": "id"}]
    _, pods = executors(phase_pipeline(manifest(secretEnv=own), UID, Platform()))
    assert "mlpipeline-minio-artifact" not in {
        o["secretName"] for o in pods["exec-update"]["secretAsEnv"]
    }


def test_stages_get_the_platforms_credentials_for_the_store_of_the_run():
    read = yaml.safe_load(MANIFEST)
    read["spec"]["storage"] = {"url": "s3://models", "endpoint": "https://s3.team.test"}
    other = {
        "endpoint": "s3.team.test",
        "secret": {"name": "team-keys", "accessKey": "id", "secretKey": "key"},
        "accessKeyEnv": "TEAM_KEY",
        "secretKeyEnv": "TEAM_SECRET",
    }

    listed = secrets_of_rollout(parse(read), Platform(storage={"others": [other]}))
    assert ("team-keys", "id", "AWS_ACCESS_KEY_ID") in listed
    assert ("team-keys", "key", "AWS_SECRET_ACCESS_KEY") in listed
    for found in (listed, secrets_of_rollout(parse(read), Platform())):
        assert "mlpipeline-minio-artifact" not in {secret for secret, _, _ in found}


def test_stages_that_open_the_store_by_their_identity_get_no_keys():
    found = secrets_of_rollout(manifest(), Platform(storage={"secret": None}))
    assert {variable for _, _, variable in found} == {"AGENTRL_ENV_TOKEN", "WEB_TOKEN"}


def test_stages_get_credentials_for_the_mlflow_of_the_platform_and_for_no_other():
    platform = Platform(
        tracking={"uri": "https://mlflow.test", "secret": {"name": "mlflow", "tokenKey": "token"}}
    )

    def found(**spec):
        read = yaml.safe_load(MANIFEST)
        read["spec"] |= spec
        return secrets_of_rollout(parse(read), platform)

    login = ("mlflow", "token", "MLFLOW_TRACKING_TOKEN")
    assert login in found()
    assert login in found(tracking={"uri": "https://mlflow.test"})
    assert login not in found(tracking={"uri": "https://other.test"})


def test_pods_of_stages_have_the_labels_and_annotations_of_the_run():
    run = manifest(
        podLabels={"team": "agents"}, podAnnotations={"karpenter.sh/do-not-disrupt": "true"}
    )
    _, pods = executors(phase_pipeline(run, UID, Platform()))
    for stage in ("exec-provision", "exec-rollout"):
        metadata = pods[stage]["podMetadata"]
        assert metadata["labels"]["team"] == "agents"
        assert metadata["labels"]["agentrl.dev/run"] == "walk"
        assert metadata["annotations"] == {"karpenter.sh/do-not-disrupt": "true"}


def test_phase_pipeline_does_not_modify_its_arguments():
    first = phase_pipeline(manifest(), UID, Platform())
    before = copy.deepcopy(first)
    phase_pipeline(manifest(image="other:1"), UID, Platform())
    assert phase_pipeline(manifest(), UID, Platform()) == before == first


def test_every_stage_trusts_the_authorities_of_the_platform_and_uses_its_proxy():
    platform = Platform(ca_bundle={"config_map": "ca"}, proxy={"https": "http://proxy:3128"})
    run = manifest(env=[{"name": "https_proxy", "value": "http://other:3128"}])
    containers, pods = executors(phase_pipeline(run, UID, platform))
    for stage, options in pods.items():
        assert options["configMapAsVolume"] == [
            {
                "configMapName": "ca",
                "configMapNameParameter": {"runtimeValue": {"constant": "ca"}},
                "mountPath": "/etc/agentrl-ca",
            }
        ]
        assert containers[stage]["container"]["env"] == [
            {"name": "SSL_CERT_FILE", "value": "/etc/agentrl-ca/ca.crt"},
            {"name": "REQUESTS_CA_BUNDLE", "value": "/etc/agentrl-ca/ca.crt"},
            {"name": "AWS_CA_BUNDLE", "value": "/etc/agentrl-ca/ca.crt"},
            {"name": "SSL_CERT_DIR", "value": "/etc/agentrl-ca"},
            {"name": "https_proxy", "value": "http://other:3128"},
        ]


def test_a_volume_of_a_config_map_is_what_the_sdk_of_kubeflow_pipelines_writes():
    @dsl.container_component
    def step():
        return dsl.ContainerSpec(image="any", command=["true"])

    @dsl.pipeline(name="mounts")
    def mounts():
        kubernetes.use_config_map_as_volume(step(), "ca", mount_path="/etc/agentrl-ca")

    written = MessageToDict(mounts.platform_spec)["platforms"]["kubernetes"]["deploymentSpec"]
    (volume,) = written["executors"]["exec-step"]["configMapAsVolume"]
    assert volume.pop("optional") is False
    assert volume == config_map_mount("ca", "/etc/agentrl-ca")
