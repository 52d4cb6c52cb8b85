"""A stub of the Kubernetes API, and `agentrl` configured to use it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from agentrl_envs.server.run import running
from agentrl_pipelines.cli.main import main

MANIFEST = """
apiVersion: agentrl.dev/v1alpha1
kind: AgentRLRun
metadata: {name: first-try}
spec:
  environments: [{name: rooms, builtin: babyai}]
  rollout: {tasks: 30, groupSize: 8}
  horizon: {phases: [{maxTurns: 3, iterations: 20}, {maxTurns: 8, iterations: 30}]}
"""
RUNS = "/apis/agentrl.dev/v1alpha1/namespaces/{namespace}/agentrlruns"
TOKEN = "sesame"


@dataclass
class Api:
    """The endpoints of the Kubernetes API that the commands use, with scripted responses."""

    runs: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    statuses: list[dict[str, Any]] = field(default_factory=list)
    """The statuses of the run: each read returns the next one, and the last one repeats."""
    pods: list[dict[str, Any]] = field(default_factory=list)
    logs: dict[str, str] = field(default_factory=dict)
    refusal: dict[str, Any] | None = None
    outages: list[int] = field(default_factory=list)
    """For each of the next reads of a run: how many answers with 503 come before it."""
    deleted_after: int | None = None
    """How many reads of a run succeed before it is deleted. None: it stays."""
    selectors: list[str] = field(default_factory=list)
    """Label selectors of the requests that listed pods."""

    def app(self) -> Starlette:
        pods = "/api/v1/namespaces/{namespace}/pods"
        return Starlette(
            routes=[
                Route(RUNS, self.create, methods=["POST"]),
                Route(RUNS + "/{name}", self.get),
                Route(pods, self.list_pods),
                Route(pods + "/{name}/log", self.log),
            ]
        )

    async def create(self, request: Request) -> Response:
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
        if self.refusal is not None:
            return JSONResponse(self.refusal, status_code=self.refusal["code"])
        body = await request.json()
        at = (request.path_params["namespace"], body["metadata"]["name"])
        if at in self.runs:
            return self.status(409, "AlreadyExists", f'agentrlruns "{at[1]}" already exists', at[1])
        if request.query_params.get("dryRun") != "All":
            self.runs[at] = body
        return JSONResponse(body, status_code=201)

    async def get(self, request: Request) -> Response:
        at = (request.path_params["namespace"], request.path_params["name"])
        if self.outages and self.outages[0]:
            self.outages[0] -= 1
            return PlainTextResponse("the server is currently unable", status_code=503)
        self.outages = self.outages[1:]
        if self.deleted_after is not None:
            self.deleted_after -= 1
        if at not in self.runs or self.deleted_after == -1:
            return self.status(404, "NotFound", f'agentrlruns "{at[1]}" not found', at[1])
        status = self.statuses.pop(0) if len(self.statuses) > 1 else (self.statuses or [{}])[0]
        return JSONResponse(self.runs[at] | {"status": status})

    async def list_pods(self, request: Request) -> Response:
        selector = request.query_params["labelSelector"]
        self.selectors.append(selector)
        labels = dict(part.partition("=")[::2] for part in selector.split(","))
        found = [
            pod
            for pod in self.pods
            if all(
                key in pod["metadata"]["labels"] and value in ("", pod["metadata"]["labels"][key])
                for key, value in labels.items()
            )
        ]
        return JSONResponse({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": found})

    async def log(self, request: Request) -> Response:
        assert request.query_params["container"] == "main"
        if request.path_params["name"] not in self.logs:
            name = request.path_params["name"]
            return self.status(404, "NotFound", f'pods "{name}" not found', name, "pods")
        lines = self.logs[request.path_params["name"]].splitlines(keepends=True)
        lines = lines[-int(request.query_params.get("tailLines", len(lines))) :]
        if request.query_params.get("follow") == "True":
            return StreamingResponse(iter(lines), media_type="text/plain")
        return PlainTextResponse("".join(lines))

    @staticmethod
    def status(
        code: int, reason: str, message: str, name: str, kind: str = "agentrlruns"
    ) -> JSONResponse:
        status = {"kind": "Status", "status": "Failure", "message": message, "reason": reason}
        details = {"name": name, "group": "agentrl.dev", "kind": kind}
        return JSONResponse(status | {"details": details, "code": code}, status_code=code)


def pod(name: str, stage: str | None, run: str, state: dict[str, Any], second: int) -> dict:
    labels = {"pipeline/runid": run} | ({"agentrl.dev/stage": stage} if stage else {})
    return {
        "metadata": {
            "name": name,
            "labels": labels,
            "creationTimestamp": f"2026-01-01T00:00:{second:02d}Z",
        },
        "status": {
            "phase": "Succeeded" if "terminated" in state else "Pending",
            "containerStatuses": [
                {"name": each, "state": state, "image": "i", "imageID": "i", "ready": True,
                 "restartCount": 0}
                for each in ("wait", "main")
            ],
        },
    }  # fmt: skip


DONE = {"terminated": {"exitCode": 0}}


@contextmanager
def cluster(folder: Path, monkeypatch: pytest.MonkeyPatch, api: Api) -> Iterator[None]:
    """Serve the API, and set KUBECONFIG to a file whose context is in namespace `lab`."""
    with running(api.app()) as url:
        use_cluster(folder, monkeypatch, url)
        yield


def use_cluster(folder: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Set KUBECONFIG to a file whose context is in namespace `lab` of the API at `url`."""
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "lab"}}
        ],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig))
    monkeypatch.setenv("KUBECONFIG", str(path))


def agentrl(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def status(state: str, index: int = 0, iteration: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "state": state, "phaseIndex": index, "iteration": iteration, "iterations": 50,
        "horizon": (3, 8)[index], **more,
    }  # fmt: skip
