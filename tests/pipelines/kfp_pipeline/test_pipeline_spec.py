"""What a run's manifest and the platform become in the graph of a phase."""

import copy
import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from agentrl_components.errors import SpecError
from agentrl_components.spec import AgentRLRun, parse
from agentrl_pipelines.cli.main import main
from agentrl_pipelines.kfp_pipeline import graph
from agentrl_pipelines.kfp_pipeline.pipeline_spec import phase_pipeline
from agentrl_pipelines.platform.config import Kueue, Platform, load
from agentrl_pipelines.platform.kueue_pods import KueueAdmission, PodSetInfo
from agentrl_pipelines.platform.resolve import (
    MAX_NAME_LENGTH,
    child_name,
    cluster_manifest,
    run_storage,
)

UID = "6f1e2d3c-1111-4222-8333-444455556666"
IR = Path(graph.__file__).parent / "ir"
MANIFEST = """
apiVersion: agentrl.dev/v1alpha1
kind: AgentRLRun
metadata: {name: walk, namespace: team}
spec:
  environments:
    - {name: rooms, builtin: babyai, options: {levels: [PickupDist]}}
    - {name: inside, builtin: corridor, replicas: 0}
    - {name: web, url: "http://web:8000", tokenEnv: WEB_TOKEN}
  horizon: {phases: [{maxTurns: 3, iterations: 2}]}
  compute:
    placement: disaggregated
    cpu: "2"
    memory: 8Gi
    gpus: 1
    nodeSelector: {gpu: h200}
    tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}]
    queue: lab
    secretEnv: [{name: WEB_TOKEN, secret: web, key: token}]
    retries: 5
"""


def manifest(**compute: object) -> AgentRLRun:
    read = yaml.safe_load(MANIFEST)
    read["spec"]["compute"].update(compute)
    return parse(read)


def executors(bound: dict) -> tuple[dict, dict]:
    pods = bound["platform_spec"]["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    return bound["pipeline_spec"]["deploymentSpec"]["executors"], pods


@pytest.mark.parametrize("placement", ["colocated", "disaggregated"])
def test_the_shipped_graph_is_the_one_that_the_sdk_compiles(tmp_path, placement):
    graph.write(placement, tmp_path / "graph.yaml")
    assert (IR / f"{placement}.yaml").read_text() == (tmp_path / "graph.yaml").read_text()


def test_each_stage_is_a_pod_of_its_own_and_none_is_cached():
    bound = phase_pipeline(manifest(), UID, Platform())
    containers, _ = executors(bound)
    stages = ["provision", "rollout", "update", "evaluate", "expand", "settle"]
    assert {c["container"]["command"][-1] for c in containers.values()} == set(stages)
    tasks = bound["pipeline_spec"]["components"]["comp-exit-handler-1"]["dag"]["tasks"]
    assert list(tasks) == ["evaluate", "expand", "provision", "rollout", "update"]
    assert tasks["rollout"]["dependentTasks"] == tasks["update"]["dependentTasks"] == ["provision"]
    assert tasks["evaluate"]["dependentTasks"] == ["rollout", "update"]
    assert all(task["cachingOptions"] == {} for task in tasks.values())


def test_a_stage_is_tried_again_even_after_its_first_hour():
    bound = phase_pipeline(manifest(), UID, Platform())
    tasks = bound["pipeline_spec"]["components"]["comp-exit-handler-1"]["dag"]["tasks"]
    assert tasks["rollout"]["retryPolicy"] == {
        "maxRetryCount": 5,
        "backoffDuration": "5s",
        "backoffFactor": 2.0,
        "backoffMaxDuration": "315360000s",
    }
    assert "retryPolicy" not in bound["pipeline_spec"]["root"]["dag"]["tasks"]["exit-handler-1"]


def test_devices_nodes_and_queues_are_the_manifests():
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


def test_pods_name_no_queue_where_kueue_admits_the_run():
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


def test_stages_run_on_the_nodes_that_kueue_chose_for_each():
    queued = KueueAdmission(
        pod_sets={"rollout": SPOT, "update": PodSetInfo(node_selector={"kind": "owned"})}
    )
    platform = Platform(kueue=Kueue(admission="run"))
    _, pods = executors(phase_pipeline(manifest(), UID, platform, queued))
    own = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    spot = {"key": "spot", "operator": "Equal", "effect": "NoSchedule"}
    assert pods["exec-rollout"]["nodeSelector"] == {"labels": {"gpu": "h200", "kind": "spot"}}
    assert pods["exec-rollout"]["tolerations"] == [own, spot]  # none twice
    assert pods["exec-update"]["nodeSelector"] == {"labels": {"gpu": "h200", "kind": "owned"}}
    assert pods["exec-update"]["tolerations"] == [own]
    assert pods["exec-evaluate"]["nodeSelector"] == pods["exec-rollout"]["nodeSelector"]
    assert "nodeSelector" not in pods["exec-provision"]


def test_what_lets_pods_onto_the_nodes_is_on_them_and_takes_none_of_our_own_labels():
    room = PodSetInfo(
        pod_labels={"cost-center": "7", "agentrl.dev/stage": "another"},
        pod_annotations={"consume-provisioning-request": "room-1"},
    )
    _, pods = executors(
        phase_pipeline(manifest(), UID, Platform(), KueueAdmission(pod_sets={"rollout": room}))
    )
    metadata = {name: pod["podMetadata"] for name, pod in pods.items()}
    carried = {"consume-provisioning-request": "room-1"}
    assert metadata["exec-rollout"]["annotations"] == carried
    assert metadata["exec-rollout"]["labels"]["cost-center"] == "7"
    assert metadata["exec-rollout"]["labels"]["agentrl.dev/stage"] == "rollout"
    assert metadata["exec-evaluate"]["annotations"] == carried
    assert "annotations" not in metadata["exec-update"]
    assert "annotations" not in metadata["exec-expand"]


def test_a_trainer_and_its_evaluation_share_the_nodes_of_one_pod_set():
    bare = manifest(placement="colocated", nodeSelector={}, tolerations=[])
    _, pods = executors(
        phase_pipeline(bare, UID, Platform(), KueueAdmission(pod_sets={"train": SPOT}))
    )
    assert pods["exec-train"]["nodeSelector"] == {"labels": {"kind": "spot"}}
    assert pods["exec-evaluate"]["nodeSelector"] == {"labels": {"kind": "spot"}}
    _, elsewhere = executors(phase_pipeline(bare, UID, Platform()))
    assert "nodeSelector" not in elsewhere["exec-train"]
    assert "tolerations" not in elsewhere["exec-train"]


def test_pods_that_kueue_admits_by_themselves_name_their_priority_class():
    urgent, key = KueueAdmission(priority_class="urgent"), "kueue.x-k8s.io/priority-class"

    def named(platform, **compute):
        _, pods = executors(phase_pipeline(manifest(**compute), UID, platform, urgent))
        return {pod["podMetadata"]["labels"].get(key) for pod in pods.values()}

    assert named(Platform()) == {"urgent"}
    assert named(Platform(), queue=None) == {None}
    assert named(Platform(kueue=Kueue(admission="run"))) == {None}


def test_secrets_are_named_and_never_told():
    bound = phase_pipeline(manifest(), UID, Platform())
    _, pods = executors(bound)
    named = {
        (one["secretName"], pair["secretKey"], pair["envVar"])
        for one in pods["exec-rollout"]["secretAsEnv"]
        for pair in one["keyToEnv"]
    }
    assert named == {
        ("mlpipeline-minio-artifact", "accesskey", "AWS_ACCESS_KEY_ID"),
        ("mlpipeline-minio-artifact", "secretkey", "AWS_SECRET_ACCESS_KEY"),
        ("walk-6f1e2d3c-token", "token", "AGENTRL_ENV_TOKEN"),
        ("web", "token", "WEB_TOKEN"),
    }


def test_a_run_with_keys_of_its_own_is_not_given_the_platforms():
    own = [{"name": "AWS_ACCESS_KEY_ID", "secret": "mine", "key": "id"}]
    _, pods = executors(phase_pipeline(manifest(secretEnv=own), UID, Platform()))
    assert "mlpipeline-minio-artifact" not in {
        o["secretName"] for o in pods["exec-update"]["secretAsEnv"]
    }


def test_stages_get_the_credentials_that_the_platform_has_for_the_store_of_the_run():
    read = yaml.safe_load(MANIFEST)
    read["spec"]["storage"] = {"url": "s3://models", "endpoint": "https://s3.team.test"}
    other = {
        "endpoint": "s3.team.test",
        "secret": {"name": "team-keys", "accessKey": "id", "secretKey": "key"},
        "accessKeyEnv": "TEAM_KEY",
        "secretKeyEnv": "TEAM_SECRET",
    }

    def variables(platform):
        _, pods = executors(phase_pipeline(parse(read), UID, platform))
        return {
            (one["secretName"], pair["secretKey"]): pair["envVar"]
            for one in pods["exec-rollout"]["secretAsEnv"]
            for pair in one["keyToEnv"]
        }

    listed = variables(Platform(storage={"others": [other]}))
    assert listed["team-keys", "id"] == "AWS_ACCESS_KEY_ID"
    assert listed["team-keys", "key"] == "AWS_SECRET_ACCESS_KEY"
    for found in (listed, variables(Platform())):
        assert "mlpipeline-minio-artifact" not in {secret for secret, _ in found}


def test_binding_leaves_what_it_was_given_alone():
    first = phase_pipeline(manifest(), UID, Platform())
    before = copy.deepcopy(first)
    phase_pipeline(manifest(image="other:1"), UID, Platform())
    assert phase_pipeline(manifest(), UID, Platform()) == before == first


def test_the_stages_see_addresses_where_the_operator_serves():
    run = cluster_manifest(manifest(), UID, Platform(tracking={"uri": "http://mlflow:5000"}))
    rooms, inside, web = run.spec.environments
    assert rooms.url == "http://walk-6f1e2d3c-rooms.team.svc:8080"
    assert (rooms.builtin, rooms.token_env, rooms.options) == (None, "AGENTRL_ENV_TOKEN", {})
    assert inside.builtin == "corridor"
    assert (web.url, web.token_env) == ("http://web:8000", "WEB_TOKEN")
    assert run.spec.storage.url == "s3://mlpipeline/agentrl/team/walk-6f1e2d3c"
    assert run.spec.tracking.uri == "http://mlflow:5000"
    parse(json.loads(run.model_dump_json(by_alias=True)))


def test_each_run_is_kept_below_the_address_that_it_names_and_never_in_anothers_place():
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


def test_stages_look_for_several_servers_where_one_may_become_more():
    rooms, inside, web = cluster_manifest(manifest(), UID, Platform()).spec.environments
    assert (rooms.replicas, inside.replicas, web.replicas) == (2, 0, 1)


def test_names_of_what_belongs_to_a_run_fit_and_differ():
    long = child_name("a" * 52, UID, "b" * 40)
    assert len(long) == MAX_NAME_LENGTH
    assert long != child_name("a" * 52, UID, "b" * 39 + "c")
    assert child_name("walk", UID, "rooms") == "walk-6f1e2d3c-rooms"


def test_a_platform_with_an_unknown_field_is_refused_by_its_name(tmp_path):
    path = tmp_path / "platform.yaml"
    path.write_text("kfp: {urll: http://a}\n")
    with pytest.raises(SpecError, match=r"platform\.yaml: kfp\.urll: .*; correct the field"):
        load(path)
    path.write_text("pollSeconds: 2\n")
    assert load(path).poll_seconds == 2


def test_the_compiled_file_holds_the_graph_and_its_pods(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(MANIFEST)
    done = CliRunner().invoke(main, ["compile", str(path)])
    assert done.exit_code == 0, done.output
    spec, pods = yaml.safe_load_all(done.output)
    assert spec["pipelineInfo"]["name"] == "agentrl-phase"
    given = {
        name: one["defaultValue"]
        for name, one in spec["root"]["inputDefinitions"]["parameters"].items()
    }
    assert (given["phase"], given["attempt"]) == (0, 0)
    resolved = AgentRLRun.model_validate_json(given["manifest"])
    place = resolved.spec.storage.url
    assert place is not None
    assert place.startswith("s3://mlpipeline/agentrl/")
    assert "exec-rollout" in pods["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
