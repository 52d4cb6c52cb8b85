"""The run API of Kubeflow Pipelines (v2beta1, backends 2.14 to 2.17), in plain REST.

A second POST of a run id returns an error and yet starts a second Workflow for the same run.
Therefore a run is only posted when KFP does not know it *and* Kubernetes has no Workflow of it that
still works. KFP creates the Workflow before its own record, so a run whose response got lost shows
in one of the two.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from agentrl_operator.api.kfp_run import KfpRun, Submission
from agentrl_operator.clients.breaker import Breaker
from agentrl_operator.clients.http import HttpClient, Response
from agentrl_operator.clients.workflows import Workflow
from agentrl_operator.clients.write_gate import WriteGate
from agentrl_operator.errors import KfpError

_API = "apis/v2beta1"
_PAGE_SIZE = 50
"""Runs in a page of a list; KFP sends each run with its whole pipeline."""
_START_TIMEOUT_S = 90.0
"""Timeout of the request that starts a run. A backend with the MLflow plugin (2.17) waits up to a
minute for MLflow before it responds."""


class Workflows(Protocol):
    """The part of `Cluster` that is needed to start a run."""

    async def list_workflows(self, namespace: str, run_id: str) -> Sequence[Workflow]:
        """The Argo Workflows of a KFP run."""
        ...


class KfpApi:
    """`Pipelines` over HTTP. Close it after use."""

    def __init__(
        self,
        url: str,
        workflows: Workflows,
        *,
        multi_user: bool = False,
        token_file: Path | None = None,
        gate: WriteGate | None = None,
        connections: int = 16,
        timeout_s: float = 30.0,
    ) -> None:
        """`multi_user` and `token_file` as in the platform's `kfp` section. Without `gate` writes
        are always sent."""
        self._url = url.rstrip("/")
        self._workflows = workflows
        self._multi_user = multi_user
        self._token_file = token_file
        self._http = HttpClient(
            "KFP",
            KfpError,
            gate=gate,
            timeout_s=timeout_s,
            connections=connections,
            breaker=Breaker(),
        )
        self.close = self._http.close
        self._plugins = True
        """Whether the backend accepts `plugins_input`; False once it has rejected the field."""

    async def get_run(self, run_id: str) -> KfpRun | None:
        content = await self._request_existing("GET", f"runs/{run_id}")
        return _kfp_run(content) if content is not None else None

    async def start_run(self, submission: Submission) -> None:
        if not submission.first and await self._exists(submission):
            return
        experiment_id = await self._ensure_experiment(submission.experiment, submission.namespace)
        run: dict[str, Any] = {
            "run_id": submission.run_id,
            "display_name": submission.name,
            "experiment_id": experiment_id,
            "pipeline_spec": submission.pipeline_spec,
            "runtime_config": {"parameters": dict(submission.parameters)},
        }
        if submission.service_account is not None:
            run["service_account"] = submission.service_account
        await self._post_run(run, tracked=submission.tracked)

    async def _post_run(self, run: Mapping[str, Any], *, tracked: bool) -> None:
        without_mlflow = {"plugins_input": {"mlflow": {"disabled": True}}}
        if tracked and self._plugins:
            body = {**run, **without_mlflow}
            response = await self._send("POST", "runs", body, timeout_s=_START_TIMEOUT_S)
            if not _is_unknown_field(response, *without_mlflow):
                self._http.content(response, "POST", "runs")
                return
            self._plugins = False  # an older backend, which rejected it before it created anything
        response = await self._send("POST", "runs", run, timeout_s=_START_TIMEOUT_S)
        self._http.content(response, "POST", "runs")

    async def _exists(self, submission: Submission) -> bool:
        """Whether KFP knows the run. Raises `KfpError` if it does not, but a Workflow of it is
        working already."""
        if await self.get_run(submission.run_id) is not None:
            return True
        found = await self._workflows.list_workflows(submission.namespace, submission.run_id)
        if not all(workflow.ended for workflow in found):
            raise KfpError(
                f"KFP: run {submission.run_id} has a working Workflow, but KFP does not list the "
                "run yet; not starting it a second time"
            )
        return False

    async def terminate_run(self, run_id: str) -> None:
        run = await self.get_run(run_id)
        if run is None or not _is_terminable(run):
            return
        try:
            await self._request_existing("POST", f"runs/{run_id}:terminate")
        except KfpError as error:
            # KFP records the termination before it changes the Workflow, and answers 500 if that
            # does not exist any more.
            if error.status < 500:
                raise
            run = await self.get_run(run_id)
            if run is not None and _is_terminable(run):
                raise

    async def list_runs(self, experiment: str, namespace: str) -> Mapping[str, KfpRun]:
        experiment_id = await self._experiment_id(experiment, namespace)
        return {} if experiment_id is None else await self._runs(experiment_id)

    async def delete_experiment(self, experiment: str, namespace: str) -> None:
        experiment_id = await self._experiment_id(experiment, namespace)
        if experiment_id is None:
            return
        for run_id in await self._runs(experiment_id):
            await self._request_existing("DELETE", f"runs/{run_id}")
        await self._request_existing("DELETE", f"experiments/{experiment_id}")

    async def _runs(self, experiment_id: str) -> dict[str, KfpRun]:
        query = {"experiment_id": experiment_id, "page_size": str(_PAGE_SIZE)}
        found: dict[str, KfpRun] = {}
        while True:
            response = await self._send("GET", "runs", query=query)
            page = self._http.content(response, "GET", "runs")
            found |= {run["run_id"]: _kfp_run(run) for run in page.get("runs") or ()}
            if not page.get("next_page_token"):
                return found
            query["page_token"] = page["next_page_token"]

    async def _ensure_experiment(self, name: str, namespace: str) -> str:
        body = {"display_name": name} | ({"namespace": namespace} if self._multi_user else {})
        response = await self._send("POST", "experiments", body)
        if response.status == 409:
            found = await self._experiment_id(name, namespace)
            if found is not None:
                return found
        return str(self._http.content(response, "POST", "experiments")["experiment_id"])

    async def _experiment_id(self, name: str, namespace: str) -> str | None:
        predicate = {"operation": "EQUALS", "key": "name", "stringValue": name}
        query = {"filter": json.dumps({"predicates": [predicate]})}
        if self._multi_user:
            query["namespace"] = namespace
        response = await self._send("GET", "experiments", query=query)
        found = self._http.content(response, "GET", "experiments").get("experiments") or ()
        return next((one["experiment_id"] for one in found if one["display_name"] == name), None)

    async def _request_existing(self, method: str, path: str) -> Mapping[str, Any] | None:
        """The content of the response; None for a 404."""
        response = await self._send(method, path)
        return None if response.status == 404 else self._http.content(response, method, path)

    async def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Response:
        return await self._http.send(
            method,
            f"{self._url}/{_API}/{path}",
            body,
            name=path,
            query=query,
            headers=self._headers(),
            timeout_s=timeout_s,
        )

    def _headers(self) -> dict[str, str]:
        """Reads the token for each request, because the kubelet renews it."""
        if self._token_file is None:
            return {}
        try:
            token = self._token_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise KfpError(f"KFP: token: {self._token_file}: {error.strerror}") from error
        return {"Authorization": f"Bearer {token}"}


def _kfp_run(content: Mapping[str, Any]) -> KfpRun:
    error = content.get("error") or {}
    return KfpRun(
        state=content.get("state") or "RUNTIME_STATE_UNSPECIFIED",
        error=str(error.get("message", ""))[:1000],
    )


def _is_terminable(run: KfpRun) -> bool:
    return run.alive and run.state != "CANCELING"


def _is_unknown_field(response: Response, name: str) -> bool:
    """Whether the backend is too old for a field of the request and rejected it for that."""
    return response.status == 400 and name in response.body.decode(errors="replace")
