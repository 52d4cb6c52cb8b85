"""The worlds that the agent must learn to act in."""

from __future__ import annotations

from typing import Annotated

from pydantic import AnyHttpUrl, Field, JsonValue, StringConstraints, UrlConstraints

from agentrl_components.spec.fields.base import Part
from agentrl_components.spec.fields.compute import Quantity, SecretVariable

Name = Annotated[str, StringConstraints(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=40)]


class Environment(Part):
    """One environment. Exactly one of `builtin`, `image` and `url` says where it runs."""

    name: Name
    """What reports, metrics and Kubernetes objects call it."""
    builtin: str | None = Field(default=None, min_length=1, max_length=40)
    """An environment of `agentrl envs list`."""
    image: str | None = Field(default=None, min_length=1, max_length=512)
    """A container image that serves the environment protocol. Needs Kubernetes."""
    url: Annotated[AnyHttpUrl, UrlConstraints(max_length=512)] | None = None
    """An environment server that already runs."""
    token_env: str | None = Field(default=None, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """Name of the environment variable that holds the server's bearer token. Never the token."""
    secret_env: tuple[SecretVariable, ...] = Field(default=(), max_length=32)
    """On Kubernetes: variables of the servers of a `builtin` or an `image` from Secrets, such as a
    key for a service that the environment asks. What lives inside the stages has
    `compute.secretEnv`."""
    options: dict[str, JsonValue] = Field(default_factory=dict, max_length=64)
    """Options of the environment, checked by the environment."""
    weight: float = Field(default=1.0, gt=0, le=1000)
    """Share of the tasks of an iteration, relative to the other environments' weights."""
    timeout_s: float = Field(default=60.0, gt=0, le=3600)
    """Seconds that one reset or step may take before the session counts as lost."""
    replicas: int = Field(default=1, ge=0, le=1000)
    """On Kubernetes: servers of a `builtin` or an `image`. 0: a `builtin` lives inside the stages,
    with no server."""
    cpu: Quantity = "250m"
    """On Kubernetes: cores that each server asks for."""
    memory: Quantity = "256Mi"
    """On Kubernetes: memory that each server asks for, and may not exceed."""
