"""Storage and tracking: the object store and MLflow."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from agentrl_components.spec.addresses import S3_FOLDER, Endpoint
from agentrl_components.spec.base import SpecModel

EnvironmentVariable = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128)
]
STORE = rf"^({S3_FOLDER}|file:///.*)$"

_CHARACTER = r"[^\x00-\x20\x7f-\x9f./:%\\'\"`]"
MODEL_NAME = rf"^[.]?{_CHARACTER}( *({_CHARACTER}|[.]))*$"
"""A name that MLflow's stores take, and that its filters take between quotes. Valid for pydantic
(Rust regex), the API server (RE2) and Python."""


class Storage(SpecModel):
    """The object store for checkpoints and trajectories. Credentials come from environment
    variables or the identity of the pod, never from the manifest."""

    url: Annotated[str, StringConstraints(pattern=STORE, max_length=512)] | None = None
    """`s3://bucket/prefix` (without `?` and `#`) or `file:///folder`. None: `store/` in the
    run's folder. On Kubernetes: `s3://` only, and None is the platform's store. Each run is stored
    below this address under `NAMESPACE/NAME-` followed by the first 8 characters of its uid, so
    runs can share it."""
    endpoint: Endpoint | None = None
    """Host and port of an S3 service. The prefix `http://` disables TLS. None: AWS S3 in
    `region`."""
    region: str | None = Field(default=None, min_length=1, max_length=64)
    """Region of the bucket."""
    access_key_env: EnvironmentVariable = "AWS_ACCESS_KEY_ID"
    """Name of the environment variable with the access key. Temporary keys in the default variables
    also need `AWS_SESSION_TOKEN`. In a pod whose service account has an IAM role on AWS neither
    variable is needed."""
    secret_key_env: EnvironmentVariable = "AWS_SECRET_ACCESS_KEY"
    """Name of the environment variable with the secret key."""
    on_delete: Literal["keep", "delete"] = "keep"
    """On Kubernetes: whether the run's own checkpoints and records are kept or deleted when the run
    is deleted."""


class Tracking(SpecModel):
    """MLflow tracking. An unavailable tracking server neither stops nor slows the run."""

    uri: str | None = Field(default=None, min_length=1, max_length=512)
    """Tracking URI. None: `mlflow.db` in the run's folder."""
    experiment: str = Field(default="agentrl", min_length=1, max_length=200)
    """MLflow experiment."""
    episodes: int = Field(default=2, ge=0, le=1000)
    """Number of episodes logged as traces at a time."""
    episodes_every: int = Field(default=10, ge=1, le=100000)
    """Iterations between logged episodes."""
    register_as: str | None = Field(default=None, min_length=1, max_length=200, pattern=MODEL_NAME)
    """Registered model name for the best checkpoint, such as `team-agent`: without `/`, `:`, `%`,
    backslashes and quotes. None: the model is not registered."""
