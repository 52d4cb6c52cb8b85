"""The pipeline of one phase of a run: the compiled phase graph with the run's image, resources and
secrets.

Uses plain data and no SDK. The result is the body that the Kubeflow Pipelines API accepts for a
pipeline with Kubernetes options: `{"pipeline_spec": ..., "platform_spec": ...}`. Only fields that a
KFP backend 2.14 knows are used.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from agentrl_components.spec import AgentRLRun, Compute, RunSpec, Volume
from agentrl_pipelines.labels import (
    GPU_RESOURCE,
    RAY_LABEL,
    RAY_PORT,
    RAY_TOKEN_KEY,
    RUN_LABEL,
    STAGE_LABEL,
    TOKEN_KEY,
    TOKEN_SECRET,
    TOKEN_VARIABLE,
)
from agentrl_pipelines.platform import kueue_pods
from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.kueue_pods import (
    NOT_QUEUED,
    UNCONSTRAINED,
    KueueAdmission,
    PodSetInfo,
)
from agentrl_pipelines.platform.outbound import CA_FOLDER, pod_variables
from agentrl_pipelines.platform.resolve import (
    child_name,
    is_managed,
    ray_cluster_name,
    ray_host,
)
from agentrl_pipelines.platform.store_access import store_access

Data = dict[str, Any]

MODEL_STAGES = ("train", "rollout", "update", "evaluate")
"""Stages that hold the model and get all resources of `spec.compute`."""
SMALL_RESOURCES: Data = {
    "resourceCpuRequest": "100m",
    "resourceMemoryRequest": "256Mi",
    "resourceMemoryLimit": "1Gi",
}
"""Resources of stages that neither hold the model nor open an environment without servers."""
MAX_RETRY_SECONDS = 315_360_000
"""`backoffMaxDuration`. Backend and SDK measure it from a stage's first start, and their default
would end retries after an hour."""


@cache
def _compiled_graph(placement: str) -> Data:
    text = (
        files("agentrl_pipelines.kfp_pipeline")
        .joinpath(f"ir/{placement}.yaml")
        .read_text(encoding="utf-8")
    )
    read: Data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return read


def phase_pipeline(
    run: AgentRLRun, uid: str, platform: Platform, kueue: KueueAdmission = NOT_QUEUED
) -> Data:
    """The pipeline of a phase of `run`, whose uid in the cluster is `uid`."""
    compute = run.spec.compute
    spec = copy.deepcopy(_compiled_graph(compute.placement))
    pods: Data = {}
    for executor, definition in spec["deploymentSpec"]["executors"].items():
        stage = executor.removeprefix("exec-")
        container = definition["container"]
        container["image"] = compute.image or platform.images.stage
        container["resources"] = stage_resources(run.spec, stage)
        env = pod_variables(platform, compute.env, compute.secret_env)
        if drives_ray(run, stage):
            env += driver_env(run, uid, platform)
        if env:
            container["env"] = [{"name": name, "value": value} for name, value in env]
        pods[executor] = pod_options(run, uid, platform, stage, kueue)
    for task in _container_tasks(spec):
        task["retryPolicy"] = {
            "maxRetryCount": compute.retries,
            "backoffDuration": "5s",
            "backoffFactor": 2.0,
            "backoffMaxDuration": f"{MAX_RETRY_SECONDS}s",
        }
    platforms = {"kubernetes": {"deploymentSpec": {"executors": pods}}}
    return {"pipeline_spec": spec, "platform_spec": {"platforms": platforms}}


def stage_resources(spec: RunSpec, stage: str) -> Data:
    """Resource requests and limits of a stage's pod."""
    if not uses_compute(spec, stage):
        return dict(SMALL_RESOURCES)
    compute = spec.compute
    resources: Data = {
        "resourceCpuRequest": compute.cpu,
        "resourceMemoryRequest": compute.memory,
        "resourceMemoryLimit": compute.memory,
    }
    if compute.gpus and stage in MODEL_STAGES:
        count = str(compute.gpus)
        resources["accelerator"] = {"resourceType": GPU_RESOURCE, "resourceCount": count}
    return resources


def uses_compute(spec: RunSpec, stage: str) -> bool:
    """Whether a stage gets the nodes, memory and volumes of `spec.compute`: it holds the model, or
    is the one that first opens environments without servers, with their files and indexes."""
    in_stages = any(environment.replicas == 0 for environment in spec.environments)
    return stage in MODEL_STAGES or (stage == "provision" and in_stages)


def pod_options(
    run: AgentRLRun, uid: str, platform: Platform, stage: str, kueue: KueueAdmission
) -> Data:
    """Kubernetes options of a stage's pod, as `platform_spec` holds them for an executor."""
    compute = run.spec.compute
    labels = {RUN_LABEL: run.metadata.name, STAGE_LABEL: stage}
    labels |= kueue_pods.pod_labels(compute, platform, kueue.priority_class)
    info = UNCONSTRAINED
    if uses_compute(run.spec, stage):
        info = kueue.pod_sets.get(kueue_pods.pod_set(stage, compute), UNCONSTRAINED)
    secrets = secret_variables(run, uid, platform)
    if drives_ray(run, stage):
        labels[RAY_LABEL] = "driver"
        name = ray_cluster_name(run.metadata.name, uid)
        secrets.append(secret_as_env(name, {RAY_TOKEN_KEY: "RAY_AUTH_TOKEN"}))
    options: Data = {
        "imagePullPolicy": platform.images.pull_policy,
        "podMetadata": kueue_pods.pod_metadata(compute, labels, info),
        "secretAsEnv": secrets,
        "emptyDirMounts": [{"volumeName": "scratch", "mountPath": "/tmp"}],
    }
    if platform.ca_bundle is not None:
        options["configMapAsVolume"] = [config_map_mount(platform.ca_bundle.config_map, CA_FOLDER)]
    if not uses_compute(run.spec, stage):
        return options
    if stage in MODEL_STAGES:
        # Containers have 64 MB of shared memory, in which a stage keeps the weights and gradients
        # that its processes share, and Ray its objects. It counts as memory of the pod.
        shared = {"volumeName": "shared-memory", "mountPath": "/dev/shm", "medium": "Memory"}
        options["emptyDirMounts"].append(shared)
    if compute.volumes:
        options["pvcMount"] = [claim_mount(one) for one in compute.volumes]
    return options | node_options(compute, info)


def drives_ray(run: AgentRLRun, stage: str) -> bool:
    """Whether a stage is a driver of the run's own Ray cluster."""
    return run.spec.compute.ray == "cluster" and stage in MODEL_STAGES


def driver_env(run: AgentRLRun, uid: str, platform: Platform) -> list[tuple[str, str]]:
    """The environment variables by which a driver finds the run's Ray cluster."""
    address = f"{ray_host(run, uid, platform)}:{RAY_PORT}"
    return [("RAY_ADDRESS", address), ("RAY_AUTH_MODE", "token")]


def secret_variables(run: AgentRLRun, uid: str, platform: Platform) -> list[Data]:
    """Environment variables from Secrets: credentials of the store and of MLflow, environment
    token, the manifest's.

    The credentials are those that the platform has for the run's store. A store that the platform
    does not list gets none of them, and one without a Secret is opened by the pod's identity. Those
    of the platform's MLflow are for runs that log there. A manifest that sets one of their
    variables replaces all of that Secret."""
    secret_env = run.spec.compute.secret_env
    own = {one.name for one in secret_env}
    secrets = [
        secret_as_env(name, variables)
        for name, variables in _platform_secrets(run.spec, platform)
        if own.isdisjoint(variables.values())
    ]
    if any(is_managed(environment) for environment in run.spec.environments):
        name = child_name(run.metadata.name, uid, TOKEN_SECRET)
        secrets.append(secret_as_env(name, {TOKEN_KEY: TOKEN_VARIABLE}))
    return secrets + [secret_as_env(one.secret, {one.key: one.name}) for one in secret_env]


def _platform_secrets(spec: RunSpec, platform: Platform) -> Iterator[tuple[str, dict[str, str]]]:
    """The Secrets of the platform that a run needs, each with its environment variables by key."""
    access = store_access(spec.storage, platform)
    secret = access.store.secret if access is not None else None
    if secret is not None:
        storage = spec.storage
        variables = {
            secret.access_key: storage.access_key_env,
            secret.secret_key: storage.secret_key_env,
        }
        yield secret.name, variables
    login = platform.tracking.secret
    if login is not None and spec.tracking.uri in (None, platform.tracking.uri):
        yield login.name, login.variables


def node_options(compute: Compute, info: PodSetInfo) -> Data:
    """Node selector and tolerations of a stage's pod: the manifest's and Kueue's."""
    labels = kueue_pods.node_selector(compute.node_selector, info)
    tolerations = kueue_pods.tolerations(compute, info)
    out: Data = {"nodeSelector": {"labels": labels}} if labels else {}
    return out | ({"tolerations": tolerations} if tolerations else {})


def secret_as_env(name: str, variables: dict[str, str]) -> Data:
    """The `secretAsEnv` entry of Secret `name`. `variables`: environment variables by key.

    The name is written twice: drivers from 2.14 on read `secretNameParameter`, older ones
    `secretName`."""
    return {
        "secretName": name,
        "secretNameParameter": {"runtimeValue": {"constant": name}},
        "keyToEnv": [{"secretKey": key, "envVar": name} for key, name in variables.items()],
    }


def claim_mount(volume: Volume) -> Data:
    """The `pvcMount` entry of a claim. KFP's format repeats the name, as for Secrets."""
    return {
        "constant": volume.claim,
        "pvcNameParameter": {"runtimeValue": {"constant": volume.claim}},
        "mountPath": volume.path,
    }


def config_map_mount(name: str, path: str) -> Data:
    """The `configMapAsVolume` entry of a ConfigMap. KFP's format repeats the name, as for
    Secrets."""
    return {
        "configMapName": name,
        "configMapNameParameter": {"runtimeValue": {"constant": name}},
        "mountPath": path,
    }


def _container_tasks(spec: Data) -> list[Data]:
    """Every task that runs a container."""
    dags = [spec["root"]["dag"], *(c["dag"] for c in spec["components"].values() if "dag" in c)]
    return [
        task
        for dag in dags
        for task in dag["tasks"].values()
        if "dag" not in spec["components"][task["componentRef"]["name"]]
    ]
