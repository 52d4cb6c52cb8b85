"""Every backend from 2.14.3 to 2.17.0 knows all that we send to KFP (kfp_contract.py)."""

import json
import re
from urllib.parse import parse_qs

import pytest
from kfp_contract import FIXTURE
from kfp_stub import KfpStub

from agentrl_components.spec import parse
from agentrl_envs.server.run import running
from agentrl_operator.api.kfp_run import ENDED, Submission
from agentrl_operator.clients.kfp import KfpApi
from agentrl_pipelines.kfp_pipeline.pipeline_spec import phase_pipeline
from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.kueue_pods import KueueAdmission, PodSetInfo
from agentrl_pipelines.platform.pod_sets import STAGES

KNOWN = json.loads(FIXTURE.read_text())
SPEC, CONTAINERS = "ml_pipelines.PipelineSpec", "ml_pipelines.PipelineDeploymentConfig"
PODS = "kfp_kubernetes.KubernetesExecutorConfig"
FREE = ("", "{}", "[]")
"""Types that are no messages or have arbitrary content."""
RUN = "d4f24ec4-9fc5-5b64-9d72-5a6b3ff0c3c4"


def unknown(data: object, kind: str) -> list[str]:
    """Paths of the fields in `data` that a message of this kind does not have."""
    if kind in FREE:
        return []
    if kind.startswith("["):
        return [path for each in data for path in unknown(each, kind[1:-1])]
    if kind.startswith("{"):
        return [f"{key}.{path}" for key in data for path in unknown(data[key], kind[1:-1])]
    fields = KNOWN["models"][kind]
    missing = [key for key in data if key not in fields]
    below = [
        f"{key}.{path}" for key in data if key in fields for path in unknown(data[key], fields[key])
    ]
    return missing + below


MANIFEST = {
    "apiVersion": "agentrl.dev/v1alpha1",
    "kind": "AgentRLRun",
    "metadata": {"name": "walk", "namespace": "kubeflow"},
    "spec": {
        "environments": [{"name": "rooms", "builtin": "babyai"}],
        "horizon": {"phases": [{"maxTurns": 3, "iterations": 2}]},
        "compute": {
            "gpus": 1,
            "nodeSelector": {"gpu": "h200"},
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "queue": "lab",
            "secretEnv": [{"name": "TOKEN", "secret": "web", "key": "token"}],
        },
    },
}


@pytest.mark.parametrize("placement", ["colocated", "disaggregated"])
def test_every_backend_knows_every_field_of_a_phases_pipeline(placement):
    read = parse(MANIFEST)
    compute = read.spec.compute.model_copy(update={"placement": placement})
    spec = read.spec.model_copy(update={"compute": compute})
    run = read.model_copy(update={"spec": spec})
    taint = {"key": "spot", "operator": "Exists", "effect": "NoExecute"}
    spot = PodSetInfo(
        node_selector={"kind": "spot"}, tolerations=(taint | {"tolerationSeconds": 60},)
    )
    nodes = dict.fromkeys(STAGES[placement], spot)
    queued = KueueAdmission(priority_class="urgent", pod_sets=nodes)
    bound = phase_pipeline(run, "6f1e2d3c-1111-4222-8333-444455556666", Platform(), queued)
    assert unknown(bound["pipeline_spec"], SPEC) == []
    containers = bound["pipeline_spec"]["deploymentSpec"]
    assert unknown(containers, CONTAINERS) == []
    pods = bound["platform_spec"]["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    assert [path for pod in pods.values() for path in unknown(pod, PODS)] == []


def test_a_field_that_only_later_backends_know_is_found():
    pod = {"imagePullPolicy": "Always", "securityContext": {}, "podMetadata": {"lables": {}}}
    assert unknown(pod, PODS) == ["securityContext", "podMetadata.lables"]


class NoWorkflows:
    """A cluster without Workflows."""

    async def list_workflows(self, namespace, run_id):
        return []


async def test_every_backend_knows_the_paths_and_fields_of_our_requests():
    stub, asked = KfpStub(), {}
    served = stub.app()

    async def listening(scope, receive, send):
        if scope["type"] == "http":
            path = re.sub(r"(runs|experiments)/[^:]+", lambda m: f"{m[1]}/{{id}}", scope["path"])
            query = parse_qs(scope["query_string"].decode())
            asked.setdefault(f"{scope['method']} {path}", set()).update(query)
        await served(scope, receive, send)

    with running(listening) as url:
        api = KfpApi(url, NoWorkflows())
        submission = Submission(
            run_id=RUN,
            name="walk: phase 1 of 1",
            experiment="walk-6f1e2d3c",
            namespace="kubeflow",
            pipeline_spec={},
            parameters={"phase": 0},
            service_account="trainer",
        )
        await api.start_run(submission)
        await api.start_run(submission)
        await api.terminate_run(RUN)
        stub.runs |= {f"{RUN}-{n}": {**stub.runs[RUN], "run_id": f"{RUN}-{n}"} for n in range(60)}
        listed = await api.list_runs("walk-6f1e2d3c", "kubeflow")
        await api.delete_experiment("walk-6f1e2d3c", "kubeflow")
        await api.close()
    known = {re.sub(r"\{\w+\}", "{id}", route): set(q) for route, q in KNOWN["routes"].items()}
    assert len(asked) == 8
    assert asked.keys() - known.keys() == set()
    assert [route for route, query in asked.items() if query - known[route]] == []
    assert asked["GET /apis/v2beta1/runs"] == {"experiment_id", "page_size", "page_token"}
    assert len(listed) == 61
    assert {"runs", "next_page_token"} <= KNOWN["models"]["v2beta1_list_runs_response"].keys()
    (posted,) = stub.posted
    assert unknown(posted, "v2beta1_run") == []
    assert unknown(posted["runtime_config"], "v2beta1_runtime_config") == []
    assert set(ENDED) | {"CANCELING"} <= set(KNOWN["states"])
