"""Kubernetes client of the CLI: AgentRLRuns and the pods of their stages.

    cluster = Cluster.open(context=None, namespace=None)
    cluster.create(run)

The cluster is found as kubectl finds it: `KUBECONFIG`, `~/.kube/config`, and inside a pod the pod's
service account. Importing the client takes a second, so commands import this module when they run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import tenacity
import urllib3
import yaml
from kubernetes import client, config
from kubernetes.client import ApiException
from kubernetes.config import ConfigException

from agentrl_components.errors import RunError, SpecError
from agentrl_components.spec import GROUP, VERSION, AgentRLRun
from agentrl_components.spec.crd.definition import PLURAL
from agentrl_pipelines.labels import KFP_RUN_LABEL, STAGE_LABEL

CONTAINER = "main"
"""The container of a KFP pod that runs the stage."""
TIMEOUT_S = (5.0, 30.0)
"""Connect and read timeout."""
OUTAGE_S = 300.0
"""How long a command that watches a run waits for an API server that does not answer, as while it
is upgraded."""
FOLLOW_TIMEOUT_S = 3600.0
"""Read timeout of a followed log, in which a stage may print nothing."""
POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

Object = dict[str, Any]
"""An object of the Kubernetes API."""


class ClusterError(RunError):
    """The cluster cannot be reached or refused a request."""


class UnavailableError(ClusterError):
    """The cluster cannot be reached, or its API server is too busy: it may answer later."""


class NoSuchPodError(ClusterError):
    """The pod was deleted, and its log with it."""


class NoSuchRunError(ClusterError):
    """The namespace holds no run of this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A stage's pod."""

    name: str
    stage: str
    started: bool
    """The container has started, so it has logs."""
    ended: bool
    waits_for: str
    """Why it has not started, such as `ImagePullBackOff: no such image`. Empty if it has."""


class Cluster:
    """One cluster and one namespace."""

    def __init__(self, api: Any, namespace: str) -> None:
        self.namespace = namespace
        self._runs = client.CustomObjectsApi(api)
        self._core = client.CoreV1Api(api)
        self._server = str(api.configuration.host)

    @classmethod
    def open(cls, *, context: str | None = None, namespace: str | None = None) -> Cluster:
        """The cluster as kubectl finds it. Raises `ClusterError` if there is no configuration."""
        settings = client.Configuration()
        settings.retries = False
        file = os.environ.get("KUBECONFIG") or config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION
        try:
            if context is None and POD_NAMESPACE.exists() and "KUBECONFIG" not in os.environ:
                config.load_incluster_config(client_configuration=settings)
                default = POD_NAMESPACE.read_text().strip()
            else:
                load = partial(config.load_kube_config, config_file=file, context=context)
                load(client_configuration=settings)
                default = _namespace_of(file, context)
        except ConfigException as error:
            raise ClusterError(
                f"kubeconfig: {error}; set KUBECONFIG, or choose one of its contexts with --context"
            ) from None
        except (OSError, yaml.YAMLError, AttributeError, TypeError, ValueError) as error:
            # The client checks neither the syntax nor the types of the file.
            reason = " ".join(str(error).split())
            raise ClusterError(
                f"kubeconfig: {file} cannot be read: {reason}; correct it, or set KUBECONFIG"
            ) from None
        if not settings.verify_ssl:  # set in the kubeconfig: do not warn at every call
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        return cls(client.ApiClient(settings), namespace or default)

    def create(self, run: AgentRLRun, *, dry_run: bool = False) -> Object:
        """Create the AgentRLRun. `dry_run`: only validate it on the API server.

        Raises:
            SpecError: the API server rejects it (one line per cause), or the name exists.
            ClusterError: the cluster cannot be reached or refuses.
        """
        body = run.model_dump(mode="json", by_alias=True, exclude_unset=True)
        body["metadata"]["namespace"] = self.namespace
        create = partial(self._runs.create_namespaced_custom_object, GROUP, VERSION, self.namespace)
        options = {"dry_run": "All"} if dry_run else {}
        with self._errors(run.metadata.name):
            created: Object = create(PLURAL, body, _request_timeout=TIMEOUT_S, **options)
        return created

    def get(self, name: str) -> Object:
        """The AgentRLRun with its status. Raises `NoSuchRunError`."""
        get = partial(self._runs.get_namespaced_custom_object, GROUP, VERSION, self.namespace)
        with self._errors(name):
            found: Object = get(PLURAL, name, _request_timeout=TIMEOUT_S)
        return found

    def poll(self, name: str, outage_s: float = OUTAGE_S) -> Object:
        """As `get`, for a command that watches the run: it waits `outage_s` seconds for an API
        server that does not answer. Raises `UnavailableError` after that."""
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(UnavailableError),
            stop=tenacity.stop_after_delay(outage_s),
            wait=tenacity.wait_random_exponential(multiplier=0.5, max=10.0),
            reraise=True,
        )
        return retrying(self.get, name)

    def pods(self, kfp_run: str, stage: str | None = None) -> list[Pod]:
        """The pods of the stages of a KFP run, oldest first, without the driver pods of KFP."""
        selector = f"{KFP_RUN_LABEL}={kfp_run},{STAGE_LABEL}" + (f"={stage}" if stage else "")
        with self._errors("pods"):
            found = self._core.list_namespaced_pod(
                self.namespace, label_selector=selector, _request_timeout=TIMEOUT_S
            )
        pods = sorted(
            found.items, key=lambda pod: (pod.metadata.creation_timestamp, pod.metadata.name)
        )
        return [_pod(each) for each in pods]

    def logs(self, pod: Pod, *, follow: bool = False, tail: int | None = None) -> Iterator[str]:
        """The lines of a stage's log, each prefixed with its timestamp and a space."""
        options = {} if tail is None else {"tail_lines": tail}
        with self._errors(pod.name):
            answer = self._core.read_namespaced_pod_log(
                pod.name,
                self.namespace,
                container=CONTAINER,
                follow=follow,
                timestamps=True,
                _preload_content=False,
                _request_timeout=(TIMEOUT_S[0], FOLLOW_TIMEOUT_S if follow else TIMEOUT_S[1]),
                **options,
            )
            try:
                yield from _lines(answer.stream())
            finally:
                answer.close()

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        """Turn API errors into `ClusterError` or `SpecError`."""
        try:
            yield
        except ApiException as error:
            raise self._error(name, error) from None
        except urllib3.exceptions.HTTPError as error:
            raise UnavailableError(
                f"{self._server}: cannot be reached ({error}); check that the cluster is up "
                "and that the context is right"
            ) from None

    def _error(self, name: str, error: Any) -> RunError:
        status = _status(error.body)
        message = status.get("message") or error.reason
        missing = status.get("details") or {}
        match error.status:
            case 409:
                return SpecError(
                    [
                        f"metadata.name: a run {name!r} already exists in namespace "
                        f"{self.namespace}; change the name, or delete that run: kubectl "
                        f"delete agentrlrun {name} -n {self.namespace}"
                    ]
                )
            case 422 | 400:
                return SpecError(_causes(status) or [str(message)])
            case 404 if missing.get("kind") == "namespaces":
                return ClusterError(
                    f"namespace: {self.namespace} does not exist; choose another with -n"
                )
            case 404 if missing.get("kind") == "pods":
                return NoSuchPodError(f"pod {name} was deleted, and its log with it")
            case 404 if missing.get("name") == name:
                return NoSuchRunError(
                    f"{name}: no such run in namespace {self.namespace}; choose another with -n"
                )
            case 404:
                return ClusterError(
                    f"{self._server}: has no AgentRLRun resource; install AgentRL in this cluster "
                    "first: agentrl crd | kubectl apply -f -, or the Helm chart"
                )
            case 401 | 403:
                return ClusterError(
                    f"{self._server}: {message}; ask the administrator of the cluster for access"
                )
            case _:
                busy = error.status in (0, 429) or error.status >= 500
                kind = UnavailableError if busy else ClusterError
                return kind(f"{self._server}: {error.status}: {message}")


def _namespace_of(file: str, context: str | None) -> str:
    contexts, active = config.list_kube_config_contexts(config_file=file)
    chosen = next((each for each in contexts if each["name"] == context), active)
    return str(chosen["context"].get("namespace") or "default")


def _status(body: Any) -> Object:
    """The `Status` object in an error's body; empty if the body is something else."""
    try:
        status = json.loads(body)
    except (TypeError, ValueError):
        return {}
    return status if isinstance(status, dict) else {}


def _causes(status: Mapping[str, Any]) -> list[str]:
    causes = (status.get("details") or {}).get("causes") or []
    return [f"{each.get('field', 'manifest')}: {each.get('message', '')}" for each in causes]


def _pod(found: Any) -> Pod:
    statuses = {each.name: each for each in found.status.container_statuses or ()}
    state = statuses[CONTAINER].state if CONTAINER in statuses else None
    waiting = state.waiting if state else None
    started = bool(state and (state.running or state.terminated))
    reasons = [waiting.reason, waiting.message] if waiting else [found.status.phase]
    return Pod(
        name=found.metadata.name,
        stage=found.metadata.labels[STAGE_LABEL],
        started=started,
        ended=found.status.phase in ("Succeeded", "Failed") or bool(state and state.terminated),
        waits_for="" if started else ": ".join(reason for reason in reasons if reason),
    )


def _lines(chunks: Iterator[bytes]) -> Iterator[str]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")
