"""The platform configuration: what an administrator sets once per cluster for all runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import AfterValidator, Field, ValidationError, model_validator

from agentrl_components.errors import SpecError
from agentrl_components.spec.addresses import (
    INVALID_BUCKET,
    RELATIVE_PART,
    S3_FOLDER,
    Endpoint,
    HttpUrl,
)
from agentrl_components.spec.base import SpecModel
from agentrl_components.spec.fields.pods import VolumeName
from agentrl_components.spec.fields.storage import EnvironmentVariable
from agentrl_components.spec.rules.compute.volumes import TAKEN_NAMES
from agentrl_envs.needs import ImageTarget

ADDRESS = Path("/etc/agentrl/platform.yaml")
"""Where the Helm chart mounts the configuration."""


def _of_valid_parts(url: str) -> str:
    if re.search(INVALID_BUCKET, url):
        raise ValueError("has an invalid bucket name")
    if re.search(RELATIVE_PART, url):
        raise ValueError("has a part . or .. in its key")
    return url


def _without_credentials(address: str) -> str:
    if "@" in urlsplit(address if "://" in address else f"//{address}").netloc:
        raise ValueError("contains a user or a password, which every run would show")
    return address


def _without_tls(url: str) -> str:
    if not url.lower().startswith("http://"):
        raise ValueError("must begin with http://: aiohttp ignores a proxy that is reached by TLS")
    return url


def _not_taken(name: str) -> str:
    if name in TAKEN_NAMES:
        raise ValueError("is the name of another volume of the pods")
    return name


ServerUrl = Annotated[HttpUrl, AfterValidator(_without_credentials)]
"""The URL of a server, such as MLflow's."""
ProxyUrl = Annotated[HttpUrl, AfterValidator(_without_credentials), AfterValidator(_without_tls)]
"""The URL of a proxy."""
StoreEndpoint = Annotated[Endpoint, AfterValidator(_without_credentials)]
"""The address of an S3 service."""
NoProxy = Annotated[str, Field(pattern=r"^[^\s,/]+$")]
"""A host, or a domain that begins with a dot. Clients of Python ignore ranges of addresses."""


class Kfp(SpecModel):
    """Kubeflow Pipelines, versions 2.14 to 2.17."""

    url: ServerUrl = "http://ml-pipeline.kubeflow.svc.cluster.local:8888"
    """Base URL of the API server."""
    ui_url: ServerUrl | None = None
    """Base URL of the web UI, used for links in a run's status."""
    namespace: str = "kubeflow"
    """Namespace of the pods of single-user deployments."""
    multi_user: bool = False
    """Multi-user mode: pods run in the run's own namespace, and API calls name that namespace."""
    token_file: Path | None = None
    """Path of a projected service-account token for the API."""


class StorageSecret(SpecModel):
    """The Secret with the credentials of the object store, in the namespace of the stages."""

    name: str = "mlpipeline-minio-artifact"
    """Name of the Secret."""
    access_key: str = "accesskey"
    """Key in the Secret that holds the access key."""
    secret_key: str = "secretkey"
    """Key in the Secret that holds the secret key."""


class OtherStore(SpecModel):
    """An S3 service that manifests may name in `spec.storage`, with credentials of its own."""

    endpoint: StoreEndpoint | None = None
    """URL of the S3 service. None: AWS."""
    region: str | None = None
    """Region of manifests that name none."""
    secret: StorageSecret | None
    """Credentials, in every namespace where stages run. None: the operator and the stages obtain
    keys by the identities of their service accounts."""
    access_key_env: EnvironmentVariable
    """Environment variable of the operator with the access key."""
    secret_key_env: EnvironmentVariable
    """Environment variable of the operator with the secret key."""


class ObjectStore(SpecModel):
    """The object store of runs whose manifest names none."""

    url: Annotated[str, AfterValidator(_of_valid_parts)] = Field(
        default="s3://mlpipeline/agentrl", pattern=rf"^{S3_FOLDER}$"
    )
    """Bucket and prefix. Each run is stored below it, under a prefix of its own."""
    endpoint: StoreEndpoint | None = "http://minio-service.kubeflow.svc.cluster.local:9000"
    """URL of the S3 service. None: AWS, in `region`."""
    region: str | None = None
    """Region of the bucket."""
    secret: StorageSecret | None = StorageSecret()
    """As in `OtherStore`."""
    access_key_env: EnvironmentVariable = "AWS_ACCESS_KEY_ID"
    """Environment variable of the operator with the access key."""
    secret_key_env: EnvironmentVariable = "AWS_SECRET_ACCESS_KEY"
    """Environment variable of the operator with the secret key."""
    others: tuple[OtherStore, ...] = ()
    """Other S3 services that manifests may name. A manifest that names one that is not listed is
    not accepted."""

    @model_validator(mode="after")
    def _has_an_address(self) -> ObjectStore:
        if self.endpoint is None and self.region is None:
            raise ValueError("endpoint or, for AWS, region is missing")
        return self


class TrackingSecret(SpecModel):
    """The Secret with the credentials for MLflow, in the namespace of the stages."""

    name: str
    """Name of the Secret."""
    username_key: str = "username"
    """Key in the Secret that holds the user."""
    password_key: str = "password"
    """Key in the Secret that holds the password."""
    token_key: str | None = None
    """Key in the Secret that holds a bearer token, which is used in place of a user."""

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of MLflow's clients, by key of the Secret."""
        if self.token_key is not None:
            return {self.token_key: "MLFLOW_TRACKING_TOKEN"}
        return {
            self.username_key: "MLFLOW_TRACKING_USERNAME",
            self.password_key: "MLFLOW_TRACKING_PASSWORD",
        }


class Mlflow(SpecModel):
    """The tracking server of runs whose manifest names none."""

    uri: ServerUrl | None = None
    """Tracking URI. None: metrics and episodes are not recorded in MLflow."""
    ui_url: ServerUrl | None = None
    """Base URL of the web UI as users reach it. None: `uri`."""
    secret: TrackingSecret | None = None
    """Credentials for `uri`. None: it asks for none. They are sent to no other server."""
    others: tuple[ServerUrl, ...] = ()
    """Tracking URIs of other servers that manifests may name and to which the operator sends
    requests. It sends none to a server that is not listed; the stages log to it nevertheless."""


class Images(SpecModel):
    """Container images."""

    stage: str = "ghcr.io/agentrl/agentrl:0.1.0"
    """Image of the stages of runs that do not name one."""
    environment: str = "ghcr.io/agentrl/agentrl-envs:0.1.0"
    """Image of the servers of built-in environments that need neither Java nor a browser."""
    environment_science: str = "ghcr.io/agentrl/agentrl-envs-science:0.1.0"
    """Image of the servers of built-in environments that need Java."""
    environment_web: str = "ghcr.io/agentrl/agentrl-envs-web:0.1.0"
    """Image of the servers of built-in environments that need a browser."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """Pull policy of all images."""

    def of(self, target: ImageTarget) -> str:
        """The image of a target of the Dockerfile that serves environments."""
        images: dict[ImageTarget, str] = {
            "envs": self.environment,
            "envs-science": self.environment_science,
            "envs-web": self.environment_web,
        }
        return images[target]


class Kueue(SpecModel):
    """How Kueue admits runs that name a queue."""

    admission: Literal["pods", "run"] = "pods"
    """pods: every pod is admitted by itself, through its queue label. run: the run is admitted as a
    whole before anything of it starts, through a Workload of Kueue 0.16 or later."""
    max_pod_sets: int = Field(default=8, ge=1)
    """Pod sets that a Workload may have. Kueue up to 0.17 takes 8, 0.19 takes 18."""


class CaBundle(SpecModel):
    """Certificate authorities that all pods trust in place of those of their images."""

    config_map: Annotated[VolumeName, AfterValidator(_not_taken)]
    """Name of a ConfigMap with PEM certificates, in every namespace with pods of runs. The volume
    of the pods has this name too."""
    key: str = "ca.crt"
    """Key of the ConfigMap that holds the certificates."""


class Proxy(SpecModel):
    """The proxy for connections to hosts outside of the cluster."""

    http: ProxyUrl | None = None
    """URL of the proxy for http:// URLs. None: no proxy."""
    https: ProxyUrl | None = None
    """URL of the proxy for https:// URLs. None: no proxy."""
    no_proxy: tuple[NoProxy, ...] = ()
    """Hosts, and domains that begin with a dot, to which pods connect without the proxy. Kubernetes
    expands references such as `$(KUBERNETES_SERVICE_HOST)`."""


class Platform(SpecModel):
    """The whole configuration. The defaults fit Kubeflow Pipelines installed from its manifests."""

    kfp: Kfp = Kfp()
    storage: ObjectStore = ObjectStore()
    tracking: Mlflow = Mlflow()
    images: Images = Images()
    kueue: Kueue = Kueue()
    ca_bundle: CaBundle | None = None
    """None: pods trust the certificate authorities of their images."""
    proxy: Proxy = Proxy()
    poll_seconds: float = Field(default=5.0, gt=0, le=3600)
    """Seconds between two reconciliations of an active run."""


def load(path: Path = ADDRESS) -> Platform:
    """Read the configuration from the YAML file at `path`.

    Raises:
        SpecError: the file cannot be read, or a field is invalid; one line per invalid field.
    """
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
