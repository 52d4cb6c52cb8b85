"""The phase graph for one run: the compiled form with the run's image, resources and secrets in it.

Pure data in, pure data out; no SDK. The answer is what Kubeflow Pipelines' API takes for a pipeline
with options for Kubernetes: `{"pipeline_spec": ..., "platform_spec": ...}`. Only fields that a
backend of 2.14 knows are used.
"""

from __future__ import annotations

import copy
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from agentrl_components.spec import AgentRLRun, Compute
from agentrl_pipelines.platform import kueue_pods
from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.kueue_pods import ANYWHERE, UNQUEUED, Nodes, Queued
from agentrl_pipelines.platform.resolve import ENVIRONMENT_TOKEN, child_name, served

Data = dict[str, Any]

RUN_LABEL = "agentrl.dev/run"
STAGE_LABEL = "agentrl.dev/stage"
RUN_ID_LABEL = "pipeline/runid"
"""KFP's own: of every pod and Workflow of a KFP run."""
GPU = "nvidia.com/gpu"
"""The resource that `compute.gpus` counts."""
TOKEN_PART = "token"
"""Names the Secret that holds the environments' token."""
TOKEN_KEY = "token"
"""The token's key in it."""
HEAVY = ("train", "rollout", "update", "evaluate")
"""Stages that hold the model; the others need little."""
LIGHT: Data = {
    "resourceCpuRequest": "100m",
    "resourceMemoryRequest": "256Mi",
    "resourceMemoryLimit": "1Gi",
}
LONGEST_S = 315_360_000
"""Backend and SDK count a retry's limit from a stage's first start, and would give up after an
hour."""


@cache
def _compiled(placement: str) -> Data:
    text = (
        files("agentrl_pipelines.kfp_pipeline")
        .joinpath(f"ir/{placement}.yaml")
        .read_text(encoding="utf-8")
    )
    read: Data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return read


def bind(run: AgentRLRun, uid: str, platform: Platform, queued: Queued = UNQUEUED) -> Data:
    """The pipeline of a phase of `run`, whose uid in the cluster is `uid`."""
    compute = run.spec.compute
    spec = copy.deepcopy(_compiled(compute.placement))
    pods: Data = {}
    for executor, definition in spec["deploymentSpec"]["executors"].items():
        stage = executor.removeprefix("exec-")
        container = definition["container"]
        container["image"] = compute.image or platform.images.stage
        container["resources"] = resources(compute, stage)
        pods[executor] = pod(run, uid, platform, stage, queued)
    for task in _tasks(spec):
        task["retryPolicy"] = {
            "maxRetryCount": compute.retries,
            "backoffDuration": "5s",
            "backoffFactor": 2.0,
            "backoffMaxDuration": f"{LONGEST_S}s",
        }
    platforms = {"kubernetes": {"deploymentSpec": {"executors": pods}}}
    return {"pipeline_spec": spec, "platform_spec": {"platforms": platforms}}


def resources(compute: Compute, stage: str) -> Data:
    """What a stage's pod asks for."""
    if stage not in HEAVY:
        return dict(LIGHT)
    asked: Data = {
        "resourceCpuRequest": compute.cpu,
        "resourceMemoryRequest": compute.memory,
        "resourceMemoryLimit": compute.memory,
    }
    if compute.gpus:
        count = str(compute.gpus)
        asked["accelerator"] = {"resourceType": GPU, "resourceCount": count}
    return asked


def pod(run: AgentRLRun, uid: str, platform: Platform, stage: str, queued: Queued) -> Data:
    """A stage's pod, as far as it differs from any pod."""
    spec, compute = run.spec, run.spec.compute
    labels = {RUN_LABEL: run.metadata.name, STAGE_LABEL: stage}
    labels |= kueue_pods.labels(compute, platform, queued.priority_class)
    secrets = []
    given = {one.name for one in compute.secret_env}
    keys = {
        platform.storage.secret.access_key: spec.storage.access_key_env,
        platform.storage.secret.secret_key: spec.storage.secret_key_env,
    }
    if given.isdisjoint(keys.values()):
        secrets.append(from_secret(platform.storage.secret.name, keys))
    if any(served(environment) for environment in spec.environments):
        name = child_name(run.metadata.name, uid, TOKEN_PART)
        secrets.append(from_secret(name, {TOKEN_KEY: ENVIRONMENT_TOKEN}))
    secrets += [from_secret(one.secret, {one.key: one.name}) for one in compute.secret_env]
    out: Data = {
        "imagePullPolicy": platform.images.pull_policy,
        "podMetadata": {"labels": labels},
        "secretAsEnv": secrets,
        "emptyDirMounts": [{"volumeName": "scratch", "mountPath": "/tmp"}],
    }
    if stage not in HEAVY:
        return out
    chosen = queued.nodes.get(kueue_pods.pod_set(stage, compute), ANYWHERE)
    return out | nodes(compute, chosen) | {"podMetadata": kueue_pods.carried(labels, chosen)}


def nodes(compute: Compute, chosen: Nodes) -> Data:
    """Where a stage's pod may run: as the manifest says, on nodes that Kueue chose."""
    labels = kueue_pods.selector(compute.node_selector, chosen)
    own = [one.model_dump(exclude_none=True) for one in compute.tolerations]
    tolerations = kueue_pods.tolerated(own, chosen)
    out: Data = {"nodeSelector": {"labels": labels}} if labels else {}
    return out | ({"tolerations": tolerations} if tolerations else {})


def from_secret(name: str, variables: dict[str, str]) -> Data:
    """Variables from a Secret, by its keys. The name stands twice: drivers from 2.14 on read
    `secretNameParameter`, older ones `secretName`."""
    return {
        "secretName": name,
        "secretNameParameter": {"runtimeValue": {"constant": name}},
        "keyToEnv": [{"secretKey": key, "envVar": name} for key, name in variables.items()],
    }


def _tasks(spec: Data) -> list[Data]:
    """Every task that runs a container."""
    dags = [spec["root"]["dag"], *(c["dag"] for c in spec["components"].values() if "dag" in c)]
    return [
        task
        for dag in dags
        for task in dag["tasks"].values()
        if "dag" not in spec["components"][task["componentRef"]["name"]]
    ]
