"""Manifests that a real kube-apiserver refuses, and those that only the operator refuses."""

import asyncio
import json

import pytest
from apiserver import Refused
from cluster_runs import MERGE, RUNS, SERVED, changed, condition, manifest, state, until
from demo_run import SPEC


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("seed", -1, "spec.seed"),
        ("seed", "one", "spec.seed"),
        ("horizon.phases", [], "spec.horizon.phases"),
        ("horizon.phases.0.maxTurns", 0, "maxTurns"),
        ("environments", [], "spec.environments"),
        ("environments.0.url", "http://both.test", "spec"),
        ("environments.0.tokenEnv", "TOKEN", "tokenEnv"),
        ("environments.0.name", "Not A Name", "spec.environments[0].name"),
        ("environments.0.secretEnv", [{"name": "KEY"}], "spec.environments[0].secretEnv[0].key"),
        ("storage.onDelete", "perhaps", "spec.storage.onDelete"),
        ("storage.url", "file:///tmp/x", "must be an s3:// address"),
        ("backoffLimit", 1000, "spec.backoffLimit"),
        ("compute.placement", "elsewhere", "spec.compute.placement"),
        ("compute.memory", "much", "spec.compute.memory"),
        ("algorithm.kl", {"estimator": "k1"}, "spec.algorithm.kl:"),
        ("algorithm.gigpoWeight", 2.0, "spec.algorithm.name:"),
        ("model.revision", "main", "spec.model.source:"),
        ("evaluation.turnSweep", [2, 1], "spec.evaluation.turnSweep:"),
    ],
)
def test_the_api_server_refuses_a_bad_manifest_and_names_the_field(server, path, value, field):
    with pytest.raises(Refused) as caught:
        server.create(manifest("bad", changed(path, value)))
    assert caught.value.status == 422
    assert field in str(caught.value)


def test_the_api_server_refuses_a_name_that_is_too_long(server):
    with pytest.raises(Refused, match=r"metadata\.name"):
        server.create(manifest("a" * 53))


async def test_a_spec_error_that_the_api_server_accepts_becomes_a_condition(server, outside):
    async with outside.operating():
        storage = {"url": "s3://runs/mistaken", "endpoint": "http://elsewhere.test:9000"}
        spec = SPEC | {"storage": storage}
        await asyncio.to_thread(server.create, manifest("mistaken", spec))
        run = await until(server, "mistaken", lambda run: condition(run, "Accepted") != {})
        assert condition(run, "Accepted")["reason"] == "InvalidSpec"
        assert (condition(run, "Accepted")["status"], state(run)) == ("False", "Pending")
        assert run["status"]["message"] == (
            "spec.storage.endpoint: http://elsewhere.test:9000 is not an object store of this "
            "platform; use another one, or let an administrator add it to storage.others"
        )
        mended = {"spec": {"storage": {"endpoint": outside.platform.storage.endpoint}}}
        await asyncio.to_thread(server.ask, "PATCH", f"{RUNS}/mistaken", mended, MERGE)
        await until(server, "mistaken", lambda run: state(run) == "Running")


async def test_a_deeply_nested_manifest_stops_no_other_run(server, outside):
    """The API server takes up to 10,000 levels, of which Python's parser by default reads 1,000."""
    environment = {"name": "babyai", "builtin": "babyai", "options": {"deep": "DEEP"}}
    nested = "[" * 9000 + "]" * 9000
    text = json.dumps(manifest("nested", SPEC | {"environments": [environment]}))
    await asyncio.to_thread(server.ask, "POST", RUNS, text.replace('"DEEP"', nested).encode())
    async with outside.operating():
        await asyncio.to_thread(server.create, manifest("beside-nested", SERVED))
        await until(server, "beside-nested", lambda run: state(run) == "Running")
        run = await until(server, "nested", lambda run: condition(run, "Accepted") != {})
        assert condition(run, "Accepted")["status"] == "False"
        assert "nested deeper than" in run["status"]["message"]
    await asyncio.to_thread(server.ask, "DELETE", f"{RUNS}/nested")
