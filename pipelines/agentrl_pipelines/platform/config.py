"""What an administrator says about a cluster, once for every run: where things are."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field, ValidationError

from agentrl_components.errors import SpecError
from agentrl_components.spec.fields.base import Part

ADDRESS = Path("/etc/agentrl/platform.yaml")
"""Where the chart puts it."""


class Kfp(Part):
    """Kubeflow Pipelines, 2.14 to 2.17."""

    url: str = "http://ml-pipeline.kubeflow.svc.cluster.local:8888"
    """Of its API."""
    ui_url: str | None = None
    """Of its web pages, for links in a run's status."""
    namespace: str = "kubeflow"
    """Where it runs its pods, unless it serves many users."""
    multi_user: bool = False
    """It keeps users apart: pods run in a run's own namespace, and calls name it."""
    token_file: Path | None = None
    """A projected service-account token for its API."""


class StorageSecret(Part):
    """The Secret with the object store's keys, in the namespace where stages run."""

    name: str = "mlpipeline-minio-artifact"
    """Of the Secret."""
    access_key: str = "accesskey"
    """Its key that holds the access key."""
    secret_key: str = "secretkey"
    """Its key that holds the secret key."""


class ObjectStore(Part):
    """Where runs are kept that do not say so themselves."""

    url: str = Field(default="s3://mlpipeline/agentrl", pattern=r"^s3://[^/]+(/.*)?$")
    """Each run gets a prefix of its own below it."""
    endpoint: str | None = "http://minio-service.kubeflow.svc.cluster.local:9000"
    """Of an S3 service. None: AWS, in `region`."""
    region: str | None = None
    """Of the bucket."""
    secret: StorageSecret = StorageSecret()
    """Its credentials."""


class Mlflow(Part):
    """The tracker of runs that do not name one."""

    uri: str | None = None
    """Tracking server. None: metrics and episodes are not shown in MLflow."""
    ui_url: str | None = None
    """Of its web pages, as people reach them. None: `uri`."""


class Images(Part):
    """What pods run."""

    stage: str = "ghcr.io/agentrl/agentrl:0.1.0"
    """Of stages, unless a run names its own."""
    environment: str = "ghcr.io/agentrl/agentrl-envs:0.1.0"
    """Of the built-in environments' servers."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """Of both."""


class Kueue(Part):
    """What Kueue admits of runs that name a queue."""

    admission: Literal["pods", "run"] = "pods"
    """pods: each pod by itself, by a label. run: the run as a whole, before anything of it starts,
    by a Workload of Kueue 0.16 or later."""


class Platform(Part):
    """All of it. The defaults fit Kubeflow Pipelines as its own manifests install it."""

    kfp: Kfp = Kfp()
    storage: ObjectStore = ObjectStore()
    tracking: Mlflow = Mlflow()
    images: Images = Images()
    kueue: Kueue = Kueue()
    poll_seconds: float = Field(default=5.0, gt=0, le=3600)
    """Between two looks at a run that is at work."""


def load(path: Path = ADDRESS) -> Platform:
    """The platform in the YAML file at `path`. Raises `SpecError` naming each wrong field."""
    try:
        read = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        return Platform.model_validate(read)
    except (OSError, yaml.YAMLError) as error:
        raise SpecError([f"{path}: cannot be read: {error}; check the file"]) from None
    except ValidationError as error:
        raise SpecError(
            [
                f"{path}: {'.'.join(map(str, one['loc']))}: {one['msg']}; correct the field"
                for one in error.errors(include_url=False)
            ]
        ) from None
