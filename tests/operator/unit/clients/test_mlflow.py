import json

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from agentrl_envs.server.run import running
from agentrl_operator.clients.mlflow import MlflowApi, authorization
from agentrl_operator.clients.write_gate import WriteGate
from agentrl_operator.errors import MlflowError, NotLeaderError
from agentrl_pipelines.platform.config import Platform


class MlflowStub:
    """The part of MLflow's API that the operator uses."""

    def __init__(self):
        self.experiments = {}
        self.runs = []

    def app(self):
        api = "/api/2.0/mlflow"
        return Starlette(
            routes=[
                Route(f"{api}/experiments/get-by-name", self.named),
                Route(f"{api}/experiments/create", self.create_experiment, methods=["POST"]),
                Route(f"{api}/runs/search", self.search, methods=["POST"]),
                Route(f"{api}/runs/create", self.create_run, methods=["POST"]),
                Route(f"{api}/runs/update", self.update, methods=["POST"]),
            ]
        )

    async def named(self, request):
        name = request.query_params["experiment_name"]
        if name not in self.experiments:
            return JSONResponse({"error_code": "RESOURCE_DOES_NOT_EXIST"}, 404)
        return JSONResponse({"experiment": {"experiment_id": self.experiments[name]}})

    async def create_experiment(self, request):
        name = (await request.json())["name"]
        self.experiments[name] = str(len(self.experiments) + 1)
        return JSONResponse({"experiment_id": self.experiments[name]})

    async def search(self, request):
        wanted = (await request.json())["filter"].split("'")[1]
        found = [
            {"info": run["info"]}
            for run in self.runs
            if {"key": "agentrl.uid", "value": wanted} in run["tags"]
        ]
        return JSONResponse({"runs": found} if found else {})

    async def create_run(self, request):
        run = await request.json()
        self.runs.append(run | {"info": {"run_id": f"m{len(self.runs)}"}})
        return JSONResponse({"run": self.runs[-1]})

    async def update(self, request):
        body = json.loads(await request.body())
        self.runs[int(body["run_id"][1:])]["status"] = body["status"]
        return JSONResponse({})


async def test_the_mlflow_run_of_a_uid_is_created_once_and_found_again():
    stub, api = MlflowStub(), MlflowApi()
    with running(stub.app()) as url:
        first = await api.ensure_run(url, "agentrl", "demo", "uid-1")
        again = await api.ensure_run(url, "agentrl", "demo", "uid-1")
        other = await api.ensure_run(url, "agentrl", "demo", "uid-2")
        await api.finish_run(url, "m0", "FINISHED")
        await api.close()

    assert (first, again, other) == ("m0", "m0", "m1")
    assert stub.runs[0]["run_name"] == "demo"
    assert stub.runs[0]["status"] == "FINISHED"


def platform(uri, **secret):
    return Platform(tracking={"uri": uri, "secret": {"name": "mlflow"} | secret})


def test_the_credentials_of_the_platforms_mlflow_are_read_from_the_environment():
    uri = "http://mlflow:5000"
    environment = {
        "MLFLOW_TRACKING_USERNAME": "me",
        "MLFLOW_TRACKING_PASSWORD": "a:b",
        "MLFLOW_TRACKING_TOKEN": "abc",
    }
    assert authorization(platform(uri), environment) == {uri: "Basic bWU6YTpi"}
    assert authorization(platform(uri, tokenKey="token"), environment) == {uri: "Bearer abc"}
    assert authorization(Platform(tracking={"uri": uri}), environment) == {}


async def test_only_the_platforms_mlflow_gets_the_credentials():
    seen = []

    class Recording(MlflowStub):
        async def named(self, request):
            seen.append(request.headers.get("authorization"))
            return await super().named(request)

        async def create_run(self, request):
            seen.append(request.headers.get("authorization"))
            return await super().create_run(request)

    with running(Recording().app()) as own, running(Recording().app()) as other:
        api = MlflowApi(authorization={own: "Bearer abc"})
        await api.ensure_run(own, "agentrl", "demo", "uid-1")
        await api.ensure_run(other, "agentrl", "demo", "uid-1")
        await api.close()
    assert seen == ["Bearer abc", "Bearer abc", None, None]


async def test_an_unreachable_mlflow_is_an_mlflow_error():
    api = MlflowApi()
    with pytest.raises(MlflowError, match="MLflow: GET experiments/get-by-name"):
        await api.ensure_run("http://127.0.0.1:9", "agentrl", "demo", "uid-1")
    await api.close()


async def test_no_experiment_is_created_behind_a_closed_gate():
    gate = WriteGate()
    gate.expires_at = 0.0
    stub, api = MlflowStub(), MlflowApi(gate=gate)
    with running(stub.app()) as url:
        with pytest.raises(NotLeaderError):
            await api.ensure_run(url, "agentrl", "demo", "uid-1")
        await api.close()
    assert stub.experiments == {}
