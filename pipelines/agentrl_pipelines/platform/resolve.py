"""A manifest as the stages of a cluster see it: what the person left open is filled in from the
platform, and environments that the operator serves are known by their address.

Names are functions of the run's uid, so that whoever asks gets the same ones.
"""

from __future__ import annotations

import hashlib

from pydantic import AnyHttpUrl

from agentrl_components.spec import AgentRLRun, Environment, Storage
from agentrl_pipelines.platform.config import Platform

ENVIRONMENT_PORT = 8080
ENVIRONMENT_TOKEN = "AGENTRL_ENV_TOKEN"
"""The variable that holds the token of the run's environment servers, in stages and servers."""
SEVERAL = 2
"""Replicas from which on stages look for each server of an environment."""
LONGEST_NAME = 63
"""Of a label's value and of a Service."""


def child_name(run: str, uid: str, part: str) -> str:
    """The name of something that belongs to a run: readable, and unique to this uid."""
    tail = f"-{uid[:8]}-{part}"
    if len(tail) > LONGEST_NAME - 8:
        tail = f"-{uid[:8]}-{hashlib.sha256(part.encode()).hexdigest()[:12]}"
    return run[: LONGEST_NAME - len(tail)].rstrip("-") + tail


def served(environment: Environment) -> bool:
    """Whether the operator runs servers for it."""
    return environment.url is None and environment.replicas > 0


def namespace(run: AgentRLRun, platform: Platform) -> str:
    """Where the run's objects and its stages live."""
    return run.metadata.namespace or platform.kfp.namespace


def environment_url(run: AgentRLRun, uid: str, environment: Environment, platform: Platform) -> str:
    """The address of its Service."""
    name = child_name(run.metadata.name, uid, environment.name)
    return f"http://{name}.{namespace(run, platform)}.svc:{ENVIRONMENT_PORT}"


def on_cluster(run: AgentRLRun, uid: str, platform: Platform) -> AgentRLRun:
    """What the stages work by. Says nothing secret: it travels as a parameter of the KFP run."""
    spec = run.spec
    environments = tuple(
        environment.model_copy(
            update={
                "builtin": None,
                "image": None,
                "options": {},
                "secret_env": (),
                "url": AnyHttpUrl(environment_url(run, uid, environment, platform)),
                "token_env": ENVIRONMENT_TOKEN,
                # One server may become several while the phase is at work, behind the same name.
                "replicas": max(environment.replicas, SEVERAL),
            }
        )
        if served(environment)
        else environment
        for environment in spec.environments
    )
    tracking = spec.tracking
    if tracking.uri is None and platform.tracking.uri is not None:
        tracking = tracking.model_copy(update={"uri": platform.tracking.uri})
    return run.model_copy(
        update={
            "spec": spec.model_copy(
                update={
                    "environments": environments,
                    "storage": storage(run, uid, platform),
                    "tracking": tracking,
                    "suspend": False,
                }
            )
        }
    )


def storage(run: AgentRLRun, uid: str, platform: Platform) -> Storage:
    """Where the run is kept: under a prefix of its own, below the address that it names or the
    platform's. Another run by the same manifest, or of the same name at another time, is kept
    elsewhere, so what is below the prefix may be deleted with the run."""
    own = run.spec.storage
    place = f"{namespace(run, platform)}/{run.metadata.name}-{uid[:8]}"
    if own.url is not None:
        return own.model_copy(update={"url": f"{own.url.rstrip('/')}/{place}"})
    return own.model_copy(
        update={
            "url": f"{platform.storage.url.rstrip('/')}/{place}",
            "endpoint": own.endpoint or platform.storage.endpoint,
            "region": own.region or platform.storage.region,
        }
    )
