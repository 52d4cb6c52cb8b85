"""A stub server of the KFP run API. As in the real one, a run that is posted twice gets the answer
500 and works twice, an existing experiment name gets 409, and a terminated run ends FAILED."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

API = "/apis/v2beta1"


@dataclass
class KfpStub:
    """A stub of the KFP API whose state tests read and change."""

    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    experiments: dict[str, str] = field(default_factory=dict)
    """Experiment IDs by name."""
    workflows: list[str] = field(default_factory=list)
    """Run IDs, one for each Workflow."""
    posted: list[dict[str, Any]] = field(default_factory=list)
    tokens: set[str | None] = field(default_factory=set)
    """Authorization headers of the requests."""
    drop_answers: bool = False
    """Start a posted run but answer 502."""
    plugins: bool = True
    """Accept `plugins_input`, as KFP 2.17 does."""
    drop_rows: bool = False
    """Start the Workflow of a posted run, but fail before the run is recorded."""
    terminable: bool = True
    """Record terminations."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def app(self) -> Starlette:
        """The ASGI application."""
        return Starlette(
            routes=[
                Route(f"{API}/runs", self._post, methods=["POST"]),
                Route(f"{API}/runs", self._list, methods=["GET"]),
                Route(f"{API}/runs/{{id:str}}", self._run, methods=["GET", "DELETE", "POST"]),
                Route(f"{API}/experiments", self._experiments, methods=["GET", "POST"]),
                Route(f"{API}/experiments/{{id}}", self._forget, methods=["DELETE"]),
            ]
        )

    def end(self, run_id: str, state: str) -> None:
        """End a run with this state."""
        self.runs[run_id]["state"] = state

    async def _post(self, request: Request) -> Response:
        run = await request.json()
        if "plugins_input" in run and not self.plugins:
            error = 'proto: (line 1:2): unknown field "plugins_input"'
            return JSONResponse({"code": 3, "error_message": error}, 400)
        self.tokens.add(request.headers.get("authorization"))
        with self.lock:
            self.posted.append(run)
            self.workflows.append(run["run_id"])
            if self.drop_rows:
                return JSONResponse({"error": "died"}, 503)
            if run["run_id"] in self.runs:
                return JSONResponse({"error_message": "Duplicate entry for key PRIMARY"}, 500)
            self.runs[run["run_id"]] = run | {"state": "RUNNING"}
        if self.drop_answers:
            return Response("bad gateway", 502)
        return JSONResponse(self.runs[run["run_id"]])

    async def _run(self, request: Request) -> Response:
        run_id, _, verb = request.path_params["id"].partition(":")
        run = self.runs.get(run_id)
        if run is None:
            return JSONResponse({"error": "not found", "code": 5}, 404)
        if request.method == "DELETE":
            del self.runs[run_id]
        if verb == "terminate" and self.terminable:
            run["state"] = "FAILED" if run_id in self.workflows else "CANCELING"
        if verb == "terminate" and run_id not in self.workflows:
            error = f"Failed to terminate run {run_id} due to error terminating its workflow"
            return JSONResponse({"error_message": error, "code": 13}, 500)
        return JSONResponse(run)

    async def _list(self, request: Request) -> Response:
        asked = request.query_params
        experiment, size = asked["experiment_id"], int(asked["page_size"])
        found = [run for run in self.runs.values() if run["experiment_id"] == experiment]
        start = int(asked.get("page_token", "0"))
        more = start + size < len(found)
        page = {"runs": found[start : start + size]}
        return JSONResponse(page | ({"next_page_token": str(start + size)} if more else {}))

    async def _experiments(self, request: Request) -> Response:
        if request.method == "POST":
            name = (await request.json())["display_name"]
            if name in self.experiments:
                return JSONResponse({"error": "already exists", "code": 6}, 409)
            self.experiments[name] = f"experiment-{len(self.experiments)}"
            return JSONResponse(self._experiment(name))
        predicate = json.loads(request.query_params["filter"])["predicates"][0]
        names = [name for name in self.experiments if name == predicate["stringValue"]]
        return JSONResponse({"experiments": [self._experiment(name) for name in names]})

    async def _forget(self, request: Request) -> Response:
        experiment = request.path_params["id"]
        self.experiments = {k: v for k, v in self.experiments.items() if v != experiment}
        return JSONResponse({})

    def _experiment(self, name: str) -> dict[str, str]:
        return {"display_name": name, "experiment_id": self.experiments[name]}
