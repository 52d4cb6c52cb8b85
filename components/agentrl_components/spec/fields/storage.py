"""Where checkpoints and trajectories go, and where metrics and episodes are shown."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from agentrl_components.spec.fields.base import Part

EnvironmentVariable = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128)
]


class Storage(Part):
    """The object store. Credentials are read from the environment, never from the manifest."""

    url: (
        Annotated[
            str, StringConstraints(pattern=r"^(s3://[^/]+(/.*)?|file:///.*)$", max_length=512)
        ]
        | None
    ) = None
    """`s3://bucket/prefix` or `file:///folder`. None: `store/` in the run's folder. On Kubernetes
    `s3://` only: each run is kept in a folder of its own below it,
    `NAMESPACE/NAME-` and the first 8 characters of its uid, so runs may share it. None: the
    platform's."""
    endpoint: str | None = Field(default=None, max_length=512, pattern=r"^(https?://)?[^/\s]+$")
    """Host and port of an S3 service; `http://` in front turns TLS off. None: AWS, in `region`."""
    region: str | None = Field(default=None, min_length=1, max_length=64)
    """Of the bucket."""
    access_key_env: EnvironmentVariable = "AWS_ACCESS_KEY_ID"
    """Name of the variable that holds the access key."""
    secret_key_env: EnvironmentVariable = "AWS_SECRET_ACCESS_KEY"
    """Name of the variable that holds the secret key."""
    on_delete: Literal["keep", "delete"] = "keep"
    """On Kubernetes: what becomes of the run's own checkpoints and records when it is deleted."""


class Tracking(Part):
    """MLflow. A tracker that is down never stops or slows the run."""

    uri: str | None = Field(default=None, min_length=1, max_length=512)
    """Tracking server. None: `mlflow.db` in the run's folder."""
    experiment: str = Field(default="agentrl", min_length=1, max_length=200)
    """MLflow experiment."""
    episodes: int = Field(default=2, ge=0, le=1000)
    """Episodes shown as traces, each time episodes are shown."""
    episodes_every: int = Field(default=10, ge=1, le=100000)
    """Iterations between shown episodes."""
    register_as: str | None = Field(default=None, min_length=1, max_length=200)
    """Name in the model registry under which the final model is registered. None: not
    registered."""
