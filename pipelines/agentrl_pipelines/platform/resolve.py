"""Resolve a manifest against the platform configuration: the manifest that the stages receive.

Fields that the manifest leaves open are filled in from the platform, and environments that the
operator serves are replaced by the URL of their Service. Names of child objects are functions of
the run's uid, so that every component computes the same ones.
"""

from __future__ import annotations

import hashlib
import re

from agentrl_components.spec import AgentRLRun, Environment, Storage
from agentrl_pipelines.labels import ENVIRONMENT_PORT, RAY_CLUSTER, TOKEN_VARIABLE
from agentrl_pipelines.platform.config import Platform

MIN_RESOLVED_REPLICAS = 2
"""The number of replicas from which the client looks up every server behind a Service."""
MAX_NAME_LENGTH = 63
"""Length limit of a label value and of a Service name."""
MAX_RAY_CLUSTER_NAME_LENGTH = 50
"""Length from which KubeRay shortens the name of a RayCluster in those of its Secret and pods."""
_RUN_PREFIX = re.compile(
    r"(.*/)?[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z]([-a-z0-9]*[a-z0-9])?-[0-9a-f]{8}"
)


def child_name(run: str, uid: str, part: str, longest: int = MAX_NAME_LENGTH) -> str:
    """The name of the child object `part` of a run: readable, unique to the run's uid, and at most
    `longest` characters long."""
    tail = f"-{uid[:8]}-{part}"
    if len(tail) > MAX_NAME_LENGTH - 8:
        tail = f"-{uid[:8]}-{hashlib.sha256(part.encode()).hexdigest()[:12]}"
    return run[: longest - len(tail)].rstrip("-") + tail


def ray_cluster_name(run: str, uid: str) -> str:
    """The name of a run's RayCluster, and of the Secret with its token."""
    return child_name(run, uid, RAY_CLUSTER, MAX_RAY_CLUSTER_NAME_LENGTH)


def ray_host(run: AgentRLRun, uid: str, platform: Platform) -> str:
    """The address of the Service that KubeRay creates for the head of a run's Ray cluster."""
    name = ray_cluster_name(run.metadata.name, uid)
    return f"{name}-head-svc.{namespace(run, platform)}.svc"


def is_managed(environment: Environment) -> bool:
    """Whether the operator runs the servers of this environment."""
    return environment.url is None and environment.replicas > 0


def replicas(environment: Environment) -> tuple[int, int]:
    """The number of servers of a managed environment at the start, and the largest one."""
    if environment.scaling is None:
        return environment.replicas, environment.replicas
    return environment.scaling.min_replicas, environment.scaling.max_replicas


def namespace(run: AgentRLRun, platform: Platform) -> str:
    """The namespace of the run's child objects and of its stages."""
    return run.metadata.namespace or platform.kfp.namespace


def environment_url(run: AgentRLRun, uid: str, environment: Environment, platform: Platform) -> str:
    """The URL of the Service of an environment that the operator serves."""
    name = child_name(run.metadata.name, uid, environment.name)
    return f"http://{name}.{namespace(run, platform)}.svc:{ENVIRONMENT_PORT}"


def cluster_manifest(run: AgentRLRun, uid: str, platform: Platform) -> AgentRLRun:
    """The manifest that the stages receive. It holds no secret, since it travels as a parameter of
    the KFP run."""
    spec = run.spec
    environments = tuple(
        _served(run, uid, environment, platform) if is_managed(environment) else environment
        for environment in spec.environments
    )
    tracking = spec.tracking
    if tracking.uri is None and platform.tracking.uri is not None:
        tracking = tracking.model_copy(update={"uri": platform.tracking.uri})
    update = {
        "environments": environments,
        "storage": run_storage(run, uid, platform),
        "tracking": tracking,
        "suspend": False,
    }
    return run.model_copy(update={"spec": spec.model_copy(update=update)})


def run_storage(run: AgentRLRun, uid: str, platform: Platform) -> Storage:
    """Where the run is stored: its own prefix below the URL of the manifest or of the platform.

    The prefix contains the uid, so that no other run is stored there, and everything below it can
    be deleted with the run."""
    own = run.spec.storage
    prefix = f"{namespace(run, platform)}/{run.metadata.name}-{uid[:8]}"
    if own.url is not None:
        return own.model_copy(update={"url": f"{own.url.rstrip('/')}/{prefix}"})
    return own.model_copy(
        update={
            "url": f"{platform.storage.url.rstrip('/')}/{prefix}",
            "endpoint": own.endpoint or platform.storage.endpoint,
            "region": own.region or platform.storage.region,
        }
    )


def is_run_prefix(prefix: str) -> bool:
    """Whether a prefix of keys ends like that of a run: `NAMESPACE/NAME-` and 8 characters of a
    uid. Others may hold the data of many runs."""
    return _RUN_PREFIX.fullmatch(prefix) is not None


def _served(run: AgentRLRun, uid: str, environment: Environment, platform: Platform) -> Environment:
    """A managed environment as its clients see it: a URL and a token."""
    return environment.model_copy(
        update={
            "builtin": None,
            "image": None,
            "options": {},
            "secret_env": (),
            "env": (),
            "volumes": (),
            "node_selector": {},
            "tolerations": (),
            "url": environment_url(run, uid, environment, platform),
            "token_env": TOKEN_VARIABLE,
            # The Deployment may be scaled up during the phase, behind the same Service.
            "replicas": max(environment.replicas, MIN_RESOLVED_REPLICAS),
            "scaling": None,
            "backend": "deployment",
            "runtime_class_name": None,
        }
    )
