"""The policy of all HTTP clients."""

import kopf
import pytest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse
from starlette.routing import Route

from agentrl_envs.server.run import running
from agentrl_operator.clients.kubernetes import KubernetesApi
from agentrl_operator.clients.mlflow import MlflowApi
from agentrl_operator.errors import KubernetesError, MlflowError


class Target:
    """A service inside of the cluster that nobody should be able to reach by a redirect."""

    def __init__(self):
        self.requests = []

    async def serve(self, request):
        self.requests.append(request.url.path)
        return JSONResponse({"experiment": {"experiment_id": "1"}})

    def app(self):
        return Starlette(routes=[Route("/{path:path}", self.serve, methods=["GET", "POST"])])


def answering(response):
    async def serve(request):
        return response

    return Starlette(routes=[Route("/{path:path}", serve, methods=["GET", "POST"])])


async def test_a_redirect_is_an_error_and_not_followed():
    target, api = Target(), MlflowApi()
    with running(target.app()) as inside:
        redirect = RedirectResponse(f"{inside}/secret", status_code=307)
        with running(answering(redirect)) as url, pytest.raises(MlflowError, match="307"):
            await api.ensure_run(url, "agentrl", "demo", "uid-1")
    await api.close()
    assert target.requests == []


async def test_a_page_instead_of_json_is_an_error_that_quotes_it():
    api = MlflowApi()
    with (
        running(answering(HTMLResponse("<html>Sign in</html>"))) as url,
        pytest.raises(MlflowError, match="not a JSON object: <html>Sign in"),
    ):
        await api.ensure_run(url, "agentrl", "demo", "uid-1")
    await api.close()


@pytest.mark.parametrize("uri", ["http://[::1:5000", "http://mlflow:90000", "http://"])
async def test_a_url_that_cannot_be_parsed_is_an_error_of_the_client(uri):
    api = MlflowApi()
    with pytest.raises(MlflowError, match="MLflow: GET experiments/get-by-name"):
        await api.ensure_run(uri, "agentrl", "demo", "uid-1")
    await api.close()


async def test_requests_go_through_the_proxy_of_the_environment(monkeypatch):
    target, api = Target(), MlflowApi()
    with running(target.app()) as proxy:
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.setenv("no_proxy", "inside.test")
        await api.finish_run("http://outside.test", "r1", "FINISHED")
        assert target.requests == ["/api/2.0/mlflow/runs/update"]
        with pytest.raises(MlflowError, match="Cannot connect to host inside"):
            await api.finish_run("http://inside.test", "r1", "FINISHED")
    await api.close()


SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "team"}}


@pytest.mark.parametrize("reason", ["AlreadyExists", "Conflict"])
async def test_only_an_object_that_exists_counts_as_created_before(reason):
    refusal = {"kind": "Status", "code": 409, "reason": reason, "message": "cannot be fulfilled"}
    with running(answering(JSONResponse(refusal, 409))) as url:
        cluster = KubernetesApi(lambda: kopf.ConnectionInfo(server=url))
        if reason == "AlreadyExists":
            assert await cluster.create(SERVICE) is False
        else:  # a quota that was charged for another object at the same time
            with pytest.raises(KubernetesError, match="409: cannot be fulfilled") as caught:
                await cluster.create(SERVICE)
            assert caught.value.retryable
        await cluster.close()
