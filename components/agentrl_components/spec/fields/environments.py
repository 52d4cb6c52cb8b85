"""Environments that the agent is trained in."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue, StringConstraints

from agentrl_components.spec.addresses import HttpUrl
from agentrl_components.spec.base import SpecModel
from agentrl_components.spec.fields.pods import (
    Image,
    LabelValue,
    ObjectName,
    SecretVariable,
    Toleration,
    Variable,
    Volume,
)
from agentrl_components.spec.quantities import Memory, Quantity

NAME = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
Name = Annotated[str, StringConstraints(pattern=NAME, max_length=40)]

Reference = Annotated[
    str,
    StringConstraints(
        pattern=r"^[A-Za-z_][-A-Za-z0-9_.]*(:[A-Za-z_][A-Za-z0-9_]*)?$", max_length=200
    ),
]

MAX_TIMEOUT_S = 3600
"""Most seconds of `Environment.timeout_s`."""


class Scaling(SpecModel):
    """How the number of servers follows the share of their sessions that are in use."""

    min_replicas: int = Field(default=1, ge=1, le=1000)
    """Least number of servers, and their number at the start."""
    max_replicas: int = Field(default=8, ge=1, le=1000)
    """Largest number of servers."""
    target_share: float = Field(default=0.7, gt=0, le=1)
    """Share of the servers' sessions in use that the number of servers is chosen for."""
    down_after_s: int = Field(default=300, ge=0, le=3600)
    """Seconds for which fewer servers must have been enough before some are removed. Longer than
    an update, during which no session is open."""
    drain_s: int = Field(default=300, ge=0, le=3600)
    """Seconds that the live sessions of a server are given to end before it is removed."""
    sessions_per_server: int | None = Field(default=None, ge=1, le=100_000)
    """Most sessions of one server of a `builtin`. None: 256."""


class Environment(SpecModel):
    """One environment. `builtin`, `image` or `url` says where it runs; a `builtin` with an `image`
    is served by that image."""

    name: Name
    """Name in reports, metrics and Kubernetes objects."""
    builtin: Reference | None = None
    """Name of a built-in environment (see `agentrl envs list`), or the task set of another package
    as `module:Class`. With an `image`, also the name of an entry point of a package in it."""
    image: Image | None = None
    """On Kubernetes: container image that serves the environment protocol or, with a `builtin`,
    that has AgentRL and the package of the environment. A run without Kubernetes uses the package
    that is installed there."""
    url: HttpUrl | None = None
    """Address of an environment server that is already running."""
    protocol: Literal["agentrl", "agentgym", "openenv"] = "agentrl"
    """What the server at `url` speaks: our own protocol, or that of AgentGym's or
    OpenEnv's servers."""
    token_env: str | None = Field(default=None, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """Name of the environment variable with the server's bearer token. Never the token itself."""
    secret_env: tuple[SecretVariable, ...] = Field(default=(), max_length=32)
    """On Kubernetes: environment variables from Secrets for the servers of a `builtin` or an
    `image`, such as an API key that the environment needs. An environment inside the stages
    (`replicas: 0`) uses `compute.secretEnv` instead."""
    env: tuple[Variable, ...] = Field(default=(), max_length=32)
    """On Kubernetes: environment variables of the servers of a `builtin` or an `image`, such as
    `HTTPS_PROXY`. An environment inside the stages (`replicas: 0`) uses `compute.env` instead."""
    volumes: tuple[Volume, ...] = Field(default=(), max_length=16)
    """On Kubernetes: claims that the servers of a `builtin` or an `image` mount, such as one with a
    corpus. An environment inside the stages (`replicas: 0`) uses `compute.volumes` instead."""
    options: dict[str, JsonValue] = Field(default_factory=dict, max_length=64)
    """Options of the environment, validated by the environment. With another `protocol`: options
    of the connection."""
    weight: float = Field(default=1.0, gt=0, le=1000)
    """Share of an iteration's tasks, relative to the weights of the other environments."""
    max_turns: tuple[Annotated[int, Field(ge=1, le=1000)], ...] = Field(default=(), max_length=64)
    """Turn limits of this environment by phase, in place of `horizon.phases[].maxTurns`. The last
    one holds for all further phases. Empty: those of the schedule."""
    timeout_s: float = Field(default=60.0, gt=0, le=MAX_TIMEOUT_S)
    """Timeout of one reset or step, in seconds, after which the session counts as lost. The server
    of a `url`, or of an `image` without `builtin`, may have a lower limit of its own. With
    `replicas: 0` it requires `workers`: a call is ended with its process. `agentrl run` without
    `workers` does not end calls of a `builtin`; it reports those that take more than 60 s."""
    replicas: int = Field(default=1, ge=0, le=1000)
    """On Kubernetes: number of servers of a `builtin` or an `image`. 0: a `builtin` runs inside the
    stages, without a server."""
    workers: int = Field(default=0, ge=0, le=64)
    """With `replicas: 0`: number of processes that run the sessions of a `builtin`, for each worker
    or sampler of the run. For an environment that computes, which holds up the engine in its
    process. 0: it runs in the process of the worker or sampler."""
    backend: Literal["deployment", "sandbox"] = "deployment"
    """On Kubernetes: what the servers of a `builtin` or an `image` are made as: pods of a
    Deployment, or `Sandbox` objects of agent-sandbox (agents.x-k8s.io), which must be installed."""
    runtime_class_name: ObjectName | None = None
    """On Kubernetes: RuntimeClass of the servers' pods, such as one of gVisor or Kata for an
    environment that executes code."""
    scaling: Scaling | None = None
    """On Kubernetes: bounds of the number of servers of a `builtin` or an `image`, which follows
    the sessions in use. None: `replicas` servers."""
    node_selector: dict[str, LabelValue] = Field(default_factory=dict, max_length=16)
    """On Kubernetes: node labels that the servers' pods require."""
    tolerations: tuple[Toleration, ...] = Field(default=(), max_length=16)
    """On Kubernetes: tolerations of the servers' pods."""
    cpu: Quantity = "250m"
    """On Kubernetes: CPU request of each server."""
    memory: Memory | None = None
    """On Kubernetes: memory request and limit of each server. Default: 256Mi, and for a `builtin`
    what it needs; see `agentrl envs list`."""
