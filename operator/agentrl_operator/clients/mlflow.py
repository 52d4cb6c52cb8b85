"""MLflow's REST API, for the one run that shows an AgentRLRun. Best effort: nothing waits for it.

The stages find the same run by its tag, or by the run's store.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

import aiohttp

from agentrl_operator.clients.answers import why
from agentrl_operator.clients.write_gate import Term
from agentrl_operator.errors import MlflowError

_API = "api/2.0/mlflow"
_UID_TAG = "agentrl.uid"


class Tracking(Protocol):
    """What the operator asks of MLflow. Every method may raise `MlflowError`."""

    async def open(self, uri: str, experiment: str, name: str, uid: str) -> str:
        """The id of the MLflow run of the AgentRLRun with this uid, made where there is none."""
        ...

    async def close_run(self, uri: str, run_id: str, status: str) -> None:
        """End a run: FINISHED, FAILED or KILLED."""
        ...


class MlflowApi:
    """`Tracking` over HTTP. To be closed."""

    def __init__(self, *, term: Term | None = None, timeout_s: float = 10.0) -> None:
        """Changes nothing outside of `term`. None: it has no end."""
        self._term = term or Term()
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=3)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Let the connections go."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def open(self, uri: str, experiment: str, name: str, uid: str) -> str:
        experiment_id = await self._experiment(uri, experiment)
        search = {
            "experiment_ids": [experiment_id],
            "filter": f"tags.`{_UID_TAG}` = '{uid}'",
            "max_results": 1,
            "order_by": ["attributes.start_time ASC"],
        }
        found = (await self._ask(uri, "POST", "runs/search", search)).get("runs") or []
        if found:
            return str(found[0]["info"]["run_id"])
        tags = {_UID_TAG: uid, "mlflow.source.name": "agentrl"}
        run = {
            "experiment_id": experiment_id,
            "run_name": name,
            "start_time": int(time.time() * 1000),
            "tags": [{"key": key, "value": value} for key, value in tags.items()],
        }
        with self._term.change("MLflow: runs/create"):
            made = await self._ask(uri, "POST", "runs/create", run)
        return str(made["run"]["info"]["run_id"])

    async def close_run(self, uri: str, run_id: str, status: str) -> None:
        ended = {"run_id": run_id, "status": status, "end_time": int(time.time() * 1000)}
        with self._term.change("MLflow: runs/update"):
            await self._ask(uri, "POST", "runs/update", ended)

    async def _experiment(self, uri: str, name: str) -> str:
        found = await self._named(uri, name)
        if found is not None:
            return found
        with self._term.change("MLflow: experiments/create"):
            status, answer = await self._sent(uri, "POST", "experiments/create", {"name": name}, {})
        if status < 400:
            return str(answer["experiment_id"])
        found = await self._named(uri, name)  # someone else made it meanwhile
        if found is None:
            raise _refused("experiments/create", status, answer)
        return found

    async def _named(self, uri: str, name: str) -> str | None:
        query = {"experiment_name": name}
        status, answer = await self._sent(uri, "GET", "experiments/get-by-name", None, query)
        if status == 404:
            return None
        if status >= 400:
            raise _refused("experiments/get-by-name", status, answer)
        return str(answer["experiment"]["experiment_id"])

    async def _ask(
        self, uri: str, method: str, path: str, body: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        status, answer = await self._sent(uri, method, path, body, {})
        if status >= 400:
            raise _refused(path, status, answer)
        return answer

    async def _sent(
        self,
        uri: str,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Mapping[str, str],
    ) -> tuple[int, Mapping[str, Any]]:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout)
        url = f"{uri.rstrip('/')}/{_API}/{path}"
        try:
            async with self._session.request(
                method, url, json=body, params=dict(query)
            ) as response:
                answer = await response.json(content_type=None)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            raise MlflowError(f"MLflow: {path}: {why(error)}") from error
        return response.status, answer if isinstance(answer, dict) else {}


def _refused(path: str, status: int, answer: Mapping[str, Any]) -> MlflowError:
    return MlflowError(f"MLflow: {path}: {status}: {str(answer.get('message', ''))[:500]}")
