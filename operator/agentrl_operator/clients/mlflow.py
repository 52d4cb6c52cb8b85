"""MLflow's REST API, for the MLflow run that shows an AgentRLRun.

Best effort: no run waits for it. The stages find the same MLflow run by its tag, or by its id in
the run's store.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from typing import Any

from agentrl_operator.clients.breaker import Breaker
from agentrl_operator.clients.http import HttpClient
from agentrl_operator.clients.write_gate import WriteGate
from agentrl_operator.errors import MlflowError
from agentrl_pipelines.platform.config import Platform

_API = "api/2.0/mlflow"
_UID_TAG = "agentrl.uid"


class MlflowApi:
    """`Tracking` over HTTP, for any number of MLflow servers. Close it after use."""

    def __init__(
        self,
        *,
        gate: WriteGate | None = None,
        timeout_s: float = 10.0,
        authorization: Mapping[str, str] | None = None,
    ) -> None:
        """Without `gate` writes are always sent. `authorization`: the header of that name, by
        tracking URI; no other server gets it."""
        self._authorization = dict(authorization or {})
        self._http = HttpClient(
            "MLflow", MlflowError, gate=gate, timeout_s=timeout_s, breaker=Breaker()
        )
        self.close = self._http.close

    async def ensure_run(self, uri: str, experiment: str, name: str, uid: str) -> str:
        experiment_id = await self._ensure_experiment(uri, experiment)
        search = {
            "experiment_ids": [experiment_id],
            "filter": f"tags.`{_UID_TAG}` = '{uid}'",
            "max_results": 1,
            "order_by": ["attributes.start_time ASC"],
        }
        found = (await self._post(uri, "runs/search", search, write=False)).get("runs") or []
        if found:
            return str(found[0]["info"]["run_id"])
        tags = {_UID_TAG: uid, "mlflow.source.name": "agentrl"}
        run = {
            "experiment_id": experiment_id,
            "run_name": name,
            "start_time": int(time.time() * 1000),
            "tags": [{"key": key, "value": value} for key, value in tags.items()],
        }
        created = await self._post(uri, "runs/create", run)
        return str(created["run"]["info"]["run_id"])

    async def finish_run(self, uri: str, run_id: str, status: str) -> None:
        change = {"run_id": run_id, "status": status, "end_time": int(time.time() * 1000)}
        await self._post(uri, "runs/update", change)

    async def _ensure_experiment(self, uri: str, name: str) -> str:
        found = await self._experiment_id(uri, name)
        if found is not None:
            return found
        try:
            created = await self._post(uri, "experiments/create", {"name": name})
        except MlflowError as error:
            if not error.status:
                raise
            found = await self._experiment_id(uri, name)  # another client may have created it
            if found is None:
                raise
            return found
        return str(created["experiment_id"])

    async def _experiment_id(self, uri: str, name: str) -> str | None:
        path = "experiments/get-by-name"
        query = {"experiment_name": name}
        response = await self._http.send(
            "GET", _url(uri, path), name=path, query=query, headers=self._headers(uri)
        )
        if response.status == 404:
            return None
        return str(self._http.content(response, "GET", path)["experiment"]["experiment_id"])

    async def _post(
        self, uri: str, path: str, body: Mapping[str, Any], *, write: bool = True
    ) -> Mapping[str, Any]:
        response = await self._http.send(
            "POST", _url(uri, path), body, name=path, headers=self._headers(uri), write=write
        )
        return self._http.content(response, "POST", path)

    def _headers(self, uri: str) -> dict[str, str]:
        known = uri in self._authorization
        return {"Authorization": self._authorization[uri]} if known else {}


def authorization(platform: Platform, environment: Mapping[str, str]) -> dict[str, str]:
    """The `authorization` of `MlflowApi`: the credentials of the platform's MLflow, from the
    environment variables of MLflow's clients."""
    uri, secret = platform.tracking.uri, platform.tracking.secret
    if uri is None or secret is None:
        return {}
    values = [environment.get(name, "") for name in secret.variables.values()]
    if secret.token_key is not None:
        return {uri: f"Bearer {values[0]}"}
    return {uri: f"Basic {base64.b64encode(':'.join(values).encode()).decode()}"}


def _url(uri: str, path: str) -> str:
    return f"{uri.rstrip('/')}/{_API}/{path}"
