"""The cluster, as a person's commands see it: runs and the pods of their stages.

    cluster = Cluster.open(context=None, namespace=None)
    cluster.create(run)

The only module here that speaks to Kubernetes. It finds the cluster as kubectl does: `KUBECONFIG`,
`~/.kube/config`, and inside a pod the pod's own account. Importing the client takes a second, so a
command imports this module when it runs.
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

import urllib3
from kubernetes import client, config
from kubernetes.client import ApiException
from kubernetes.config import ConfigException

from agentrl_components.errors import RunError, SpecError
from agentrl_components.spec import GROUP, VERSION, AgentRLRun
from agentrl_components.spec.crd.definition import PLURAL
from agentrl_pipelines.labels import KFP_RUN_LABEL, STAGE_LABEL

CONTAINER = "main"
"""The container of a KFP pod that runs the stage; the others are KFP's."""
TIMEOUT_S = (5.0, 30.0)
"""To connect, and to wait for an answer."""
SILENCE_S = 3600.0
"""A stage that is followed may say nothing for so long."""
IN_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

Object = dict[str, Any]
"""An object of the Kubernetes API."""


class ClusterError(RunError):
    """The cluster cannot be reached, or refused. Names the thing, the reason and the fix."""


class NoSuchRunError(ClusterError):
    """There is no run of this name in this namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A stage's pod."""

    name: str
    stage: str
    began: bool
    """Its container has started, so there are logs."""
    ended: bool
    waits_for: str
    """Why it has not started: `ImagePullBackOff: no such image`. Empty where it has."""


class Cluster:
    """One cluster and one namespace."""

    def __init__(self, api: Any, namespace: str) -> None:
        self.namespace = namespace
        self._runs = client.CustomObjectsApi(api)
        self._core = client.CoreV1Api(api)
        self._server = str(api.configuration.host)

    @classmethod
    def open(cls, *, context: str | None = None, namespace: str | None = None) -> Cluster:
        """As kubectl finds it. Raises `ClusterError` where there is no configuration."""
        settings = client.Configuration()
        settings.retries = False
        file = os.environ.get("KUBECONFIG") or config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION
        try:
            if context is None and IN_POD.exists() and "KUBECONFIG" not in os.environ:
                config.load_incluster_config(client_configuration=settings)
                usual = IN_POD.read_text().strip()
            else:
                load = partial(config.load_kube_config, config_file=file, context=context)
                load(client_configuration=settings)
                usual = _namespace_of(file, context)
        except ConfigException as error:
            raise ClusterError(
                f"kubeconfig: {error}; set KUBECONFIG, or choose one of its contexts with --context"
            ) from None
        if not settings.verify_ssl:  # the kubeconfig says so; no need to say it with every call
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        return cls(client.ApiClient(settings), namespace or usual)

    def create(self, run: AgentRLRun, *, dry_run: bool = False) -> Object:
        """Ask for the run. `dry_run`: only whether the API server would take it.

        Raises `SpecError` with a line for each cause where it would not, or the name is taken."""
        body = run.model_dump(mode="json", by_alias=True, exclude_unset=True)
        body["metadata"]["namespace"] = self.namespace
        create = partial(self._runs.create_namespaced_custom_object, GROUP, VERSION, self.namespace)
        asked = {"dry_run": "All"} if dry_run else {}
        with self._told(run.metadata.name):
            created: Object = create(PLURAL, body, _request_timeout=TIMEOUT_S, **asked)
        return created

    def get(self, name: str) -> Object:
        """The run, status and all. Raises `NoSuchRunError`."""
        get = partial(self._runs.get_namespaced_custom_object, GROUP, VERSION, self.namespace)
        with self._told(name):
            found: Object = get(PLURAL, name, _request_timeout=TIMEOUT_S)
        return found

    def pods(self, kfp_run: str, stage: str | None = None) -> list[Pod]:
        """The pods of the stages of a KFP run, oldest first; those of KFP itself are left out."""
        selector = f"{KFP_RUN_LABEL}={kfp_run},{STAGE_LABEL}" + (f"={stage}" if stage else "")
        with self._told("pods"):
            found = self._core.list_namespaced_pod(
                self.namespace, label_selector=selector, _request_timeout=TIMEOUT_S
            )
        pods = sorted(
            found.items, key=lambda pod: (pod.metadata.creation_timestamp, pod.metadata.name)
        )
        return [_pod(each) for each in pods]

    def logs(self, pod: Pod, *, follow: bool = False, tail: int | None = None) -> Iterator[str]:
        """What a stage writes, line by line, each after the time it was written at and a space."""
        asked = {} if tail is None else {"tail_lines": tail}
        with self._told(pod.name):
            answer = self._core.read_namespaced_pod_log(
                pod.name,
                self.namespace,
                container=CONTAINER,
                follow=follow,
                timestamps=True,
                _preload_content=False,
                _request_timeout=(TIMEOUT_S[0], SILENCE_S if follow else TIMEOUT_S[1]),
                **asked,
            )
            try:
                yield from _lines(answer.stream())
            finally:
                answer.close()

    @contextmanager
    def _told(self, name: str) -> Iterator[None]:
        """The API's refusals as what a person can act on."""
        try:
            yield
        except ApiException as error:
            raise self._refusal(name, error) from None
        except urllib3.exceptions.HTTPError as error:
            raise ClusterError(
                f"{self._server}: cannot be reached ({error}); is the cluster up, and is this the "
                "right context?"
            ) from None

    def _refusal(self, name: str, error: Any) -> RunError:
        told = _status(error.body)
        message = told.get("message") or error.reason
        missing = told.get("details") or {}
        match error.status:
            case 409:
                return SpecError(
                    [
                        f"metadata.name: a run {name!r} is in namespace {self.namespace} already; "
                        f"change the name, or delete that run: kubectl delete agentrlrun {name} "
                        f"-n {self.namespace}"
                    ]
                )
            case 422 | 400:
                return SpecError(_causes(told) or [str(message)])
            case 404 if missing.get("kind") == "namespaces":
                return ClusterError(
                    f"namespace: there is no {self.namespace}; choose another with -n"
                )
            case 404 if missing.get("name") == name:
                return NoSuchRunError(
                    f"{name}: there is no such run in namespace {self.namespace}; "
                    "choose another with -n"
                )
            case 404:
                return ClusterError(
                    f"{self._server}: knows no AgentRLRun; install AgentRL in this cluster first: "
                    "agentrl crd | kubectl apply -f -, or the Helm chart"
                )
            case 401 | 403:
                return ClusterError(f"{self._server}: {message}; ask who runs the cluster")
            case _:
                return ClusterError(f"{self._server}: {error.status}: {message}")


def _namespace_of(file: str, context: str | None) -> str:
    contexts, active = config.list_kube_config_contexts(config_file=file)
    chosen = next((each for each in contexts if each["name"] == context), active)
    return str(chosen["context"].get("namespace") or "default")


def _status(body: Any) -> Object:
    """The API's `Status`; empty where something else answered."""
    try:
        told = json.loads(body)
    except (TypeError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _causes(told: Mapping[str, Any]) -> list[str]:
    causes = (told.get("details") or {}).get("causes") or []
    return [f"{each.get('field', 'manifest')}: {each.get('message', '')}" for each in causes]


def _pod(found: Any) -> Pod:
    statuses = {each.name: each for each in found.status.container_statuses or ()}
    state = statuses[CONTAINER].state if CONTAINER in statuses else None
    waiting = state.waiting if state else None
    began = bool(state and (state.running or state.terminated))
    reasons = [waiting.reason, waiting.message] if waiting else [found.status.phase]
    return Pod(
        name=found.metadata.name,
        stage=found.metadata.labels[STAGE_LABEL],
        began=began,
        ended=found.status.phase in ("Succeeded", "Failed") or bool(state and state.terminated),
        waits_for="" if began else ": ".join(reason for reason in reasons if reason),
    )


def _lines(chunks: Iterator[bytes]) -> Iterator[str]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")
