"""Kubeflow Pipelines' run API (v2beta1, backends 2.14 to 2.17), in plain REST.

A second POST of a run id answers with an error and yet starts a second Workflow under the same
run. So a run is only ever posted when KFP does not know it *and* Kubernetes has no Workflow of it
that still works: the Workflow is made before KFP's own record, so that an answer that got lost
shows in one of the two.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import aiohttp

from agentrl_operator.clients.answers import parsed, why
from agentrl_operator.clients.write_gate import Term
from agentrl_operator.errors import KfpError
from agentrl_operator.planning.observation import KfpRun

_API = "apis/v2beta1"
_PAGE = 50
"""Runs a page: KFP sends each with its pipeline."""
_START_S = 90.0
"""For the answer to a start: a backend with MLflow (2.17) waits up to a minute for that first."""
_OVER = ("Succeeded", "Failed", "Error")
"""Phases of a Workflow that does nothing more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A KFP run to start."""

    run_id: str
    name: str
    """As the UI shows it."""
    experiment: str
    """Name of the KFP experiment, which is made where there is none."""
    namespace: str
    """Where its pods run."""
    pipeline_spec: Mapping[str, Any]
    """The compiled pipeline; with platform options, `{pipeline_spec, platform_spec}`."""
    parameters: Mapping[str, Any]
    service_account: str | None = None
    first: bool = False
    """Nothing can have been posted for this run before."""
    tracked: bool = False
    """It records in MLflow itself: a backend with MLflow of its own (2.17) is to leave it alone."""


class Pipelines(Protocol):
    """What the operator asks of KFP. Every method may raise `KfpError`, and those that change
    something `LeaseError`."""

    async def get(self, run_id: str) -> KfpRun | None:
        """A run. None: KFP does not know it."""
        ...

    async def start(self, submission: Submission) -> None:
        """Start a run, unless there is one of its id."""
        ...

    async def terminate(self, run_id: str) -> None:
        """Ask a run to stop; nothing happens where it has ended or is not known."""
        ...

    async def listed(self, experiment: str, namespace: str) -> Mapping[str, KfpRun]:
        """Every run of an experiment, by id; none where there is no such experiment."""
        ...

    async def forget(self, experiment: str, namespace: str) -> None:
        """Delete an experiment and its runs."""
        ...


class Workflows(Protocol):
    """Kubernetes, as far as starting a run needs it."""

    async def workflows(self, namespace: str, run_id: str) -> Sequence[str]:
        """The phases of a KFP run's Workflows."""
        ...


class KfpApi:
    """`Pipelines` over HTTP. To be closed."""

    def __init__(
        self,
        url: str,
        workflows: Workflows,
        *,
        multi_user: bool = False,
        token_file: Path | None = None,
        term: Term | None = None,
        requests_at_once: int = 16,
        timeout_s: float = 30.0,
    ) -> None:
        """Changes nothing outside of `term`. None: it has no end."""
        self._url = url.rstrip("/")
        self._workflows = workflows
        self._multi_user = multi_user
        self._token_file = token_file
        self._term = term or Term()
        self._limit = requests_at_once
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None
        self._plugins = True
        """Whether the backend takes `plugins_input`, as far as is known."""

    async def close(self) -> None:
        """Let the connections go."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(self, run_id: str) -> KfpRun | None:
        answer = await self._found("GET", f"runs/{run_id}")
        return _read(answer) if answer is not None else None

    async def start(self, submission: Submission) -> None:
        if not submission.first and await self._begun(submission):
            return
        experiment = await self._experiment(submission.experiment, submission.namespace)
        run: dict[str, Any] = {
            "run_id": submission.run_id,
            "display_name": submission.name,
            "experiment_id": experiment,
            "pipeline_spec": submission.pipeline_spec,
            "runtime_config": {"parameters": dict(submission.parameters)},
        }
        if submission.service_account is not None:
            run["service_account"] = submission.service_account
        await self._post(run, tracked=submission.tracked)

    async def _post(self, run: Mapping[str, Any], *, tracked: bool) -> None:
        alone = {"plugins_input": {"mlflow": {"disabled": True}}}
        if tracked and self._plugins:
            status, answer = await self._sent("POST", "runs", {**run, **alone}, {}, _START_S)
            if not _unknown_field(status, answer, *alone):
                return _accepted(status, answer)
            self._plugins = False  # refused before anything was made: an older backend
        status, answer = await self._sent("POST", "runs", run, {}, _START_S)
        return _accepted(status, answer)

    async def _begun(self, submission: Submission) -> bool:
        """Whether KFP has the run. Raises `KfpError` where its Workflow works already."""
        if await self.get(submission.run_id) is not None:
            return True
        phases = await self._workflows.workflows(submission.namespace, submission.run_id)
        if any(phase not in _OVER for phase in phases):
            raise KfpError(
                f"KFP: run {submission.run_id}: its Workflow works and KFP does not know it yet; "
                "not started a second time"
            )
        return False

    async def terminate(self, run_id: str) -> None:
        run = await self.get(run_id)
        if run is not None and run.alive and run.state != "CANCELING":
            await self._found("POST", f"runs/{run_id}:terminate")

    async def listed(self, experiment: str, namespace: str) -> Mapping[str, KfpRun]:
        experiment_id = await self._named(experiment, namespace)
        return {} if experiment_id is None else await self._runs(experiment_id)

    async def forget(self, experiment: str, namespace: str) -> None:
        experiment_id = await self._named(experiment, namespace)
        if experiment_id is None:
            return
        for run_id in await self._runs(experiment_id):
            await self._found("DELETE", f"runs/{run_id}")
        await self._found("DELETE", f"experiments/{experiment_id}")

    async def _runs(self, experiment_id: str) -> dict[str, KfpRun]:
        query = {"experiment_id": experiment_id, "page_size": str(_PAGE)}
        found: dict[str, KfpRun] = {}
        while True:
            page = await self._ask("GET", "runs", query=query)
            found |= {run["run_id"]: _read(run) for run in page.get("runs") or ()}
            if not page.get("next_page_token"):
                return found
            query["page_token"] = page["next_page_token"]

    async def _experiment(self, name: str, namespace: str) -> str:
        body = {"display_name": name} | ({"namespace": namespace} if self._multi_user else {})
        status, answer = await self._sent("POST", "experiments", body, {})
        if status == 409:
            found = await self._named(name, namespace)
            if found is not None:
                return found
        if status >= 400:
            raise _refused("POST", "experiments", status, answer)
        return str(answer["experiment_id"])

    async def _named(self, name: str, namespace: str) -> str | None:
        predicate = {"operation": "EQUALS", "key": "name", "stringValue": name}
        query = {"filter": json.dumps({"predicates": [predicate]})}
        if self._multi_user:
            query["namespace"] = namespace
        found = (await self._ask("GET", "experiments", query=query)).get("experiments") or ()
        return next((one["experiment_id"] for one in found if one["display_name"] == name), None)

    async def _found(self, method: str, path: str) -> Mapping[str, Any] | None:
        status, answer = await self._sent(method, path, None, {})
        if status == 404:
            return None
        if status >= 400:
            raise _refused(method, path, status, answer)
        return answer

    async def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Mapping[str, Any]:
        status, answer = await self._sent(method, path, body, query or {})
        if status >= 400:
            raise _refused(method, path, status, answer)
        return answer

    async def _sent(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Mapping[str, str],
        patience_s: float | None = None,
    ) -> tuple[int, Mapping[str, Any]]:
        free = method == "GET"
        with nullcontext() if free else self._term.change(f"KFP: {method} {path}"):
            try:
                async with self._connected().request(
                    method,
                    f"{self._url}/{_API}/{path}",
                    json=body,
                    params=dict(query),
                    headers=self._headers(),
                    timeout=aiohttp.ClientTimeout(patience_s or self._timeout_s, sock_connect=5),
                ) as response:
                    return response.status, parsed(await response.read())
            except (TimeoutError, aiohttp.ClientError, OSError) as error:
                raise KfpError(f"KFP: {method} {path}: {why(error)}") from error

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=self._limit)
            self._session = aiohttp.ClientSession(connector=connector)
        return self._session

    def _headers(self) -> dict[str, str]:
        """Read for each request, because the kubelet renews the token."""
        if self._token_file is None:
            return {}
        try:
            token = self._token_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise KfpError(f"KFP: token: {self._token_file}: {error.strerror}") from error
        return {"Authorization": f"Bearer {token}"}


def _accepted(status: int, answer: Mapping[str, Any]) -> None:
    if status >= 400:
        raise _refused("POST", "runs", status, answer)


def _read(run: Mapping[str, Any]) -> KfpRun:
    error = run.get("error") or {}
    return KfpRun(
        state=run.get("state") or "RUNTIME_STATE_UNSPECIFIED",
        error=str(error.get("message", ""))[:1000],
    )


def _unknown_field(status: int, answer: Mapping[str, Any], name: str) -> bool:
    """Whether a request was refused because the backend is too old for a field of it."""
    return status == 400 and name in json.dumps(answer)


def _refused(method: str, path: str, status: int, answer: Mapping[str, Any]) -> KfpError:
    reason = answer.get("error_message") or answer.get("message") or answer.get("error") or ""
    return KfpError(
        f"KFP: {method} {path}: {status}: {str(reason)[:1000]}",
        retryable=status in (401, 408, 409, 429) or status >= 500,
    )
