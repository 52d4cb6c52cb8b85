"""The operator on a real kube-apiserver and etcd, with everything else in memory."""

import asyncio
import copy
import json
import time

import pytest
from apiserver import PATIENCE_S, Refused
from cluster_runs import (
    MERGE,
    NAMESPACE,
    RUNS,
    SERVED,
    Outside,
    condition,
    manifest,
    state,
    until,
    until_gone,
)
from demo_run import SPEC

from agentrl_operator.api import resource
from agentrl_operator.errors import KubernetesError
from agentrl_operator.manifests import autoscaling


async def test_a_run_goes_from_created_to_succeeded_and_its_children_are_its_own(server, outside):
    async with outside.operating():
        made = await asyncio.to_thread(server.create, manifest("whole", SERVED))
        run = await until(server, "whole", lambda run: state(run) == "Running")
        assert run["metadata"]["finalizers"] == ["agentrl.dev/run"]
        assert run["status"]["observedGeneration"] == 1
        name = f"whole-{made['metadata']['uid'][:8]}"
        for path in (
            f"apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}-babyai",
            f"api/v1/namespaces/{NAMESPACE}/services/{name}-babyai",
            f"api/v1/namespaces/{NAMESPACE}/secrets/{name}-token",
        ):
            child = await asyncio.to_thread(server.ask, "GET", path)
            owner = child["metadata"]["ownerReferences"][0]
            assert (owner["uid"], owner["controller"]) == (made["metadata"]["uid"], True)
        seen = [
            body["metadata"]["name"] async for body in outside.cluster.list_deployments(NAMESPACE)
        ]
        assert f"{name}-babyai" in seen

        outside.finish_phase(run, 0, "advance")
        second = await until(
            server,
            "whole",
            lambda run: (
                run["status"]["phaseIndex"] == 1
                and run["status"].get("kfpRun") in outside.kfp.working
            ),
        )
        assert second["status"]["horizon"] == 6
        outside.finish_phase(second, 1, "finish")
        done = await until(server, "whole", lambda run: state(run) == "Succeeded")
        assert condition(done, "Succeeded")["reason"] == "ScheduleDone"
        await until_gone(server, f"apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}-babyai")
        events = await asyncio.to_thread(server.ask, "GET", f"api/v1/namespaces/{NAMESPACE}/events")
        reasons = {
            event["reason"]
            for event in events["items"]
            if event["involvedObject"]["name"] == "whole"
        }
        assert {"Submitting", "Running", "ScheduleDone"} <= reasons


async def test_ready_servers_are_shown_in_the_status_at_once(server, outside):
    async with outside.operating():
        made = await asyncio.to_thread(server.create, manifest("served", SERVED))
        await until(server, "served", lambda run: state(run) == "Running")
        name = f"served-{made['metadata']['uid'][:8]}-babyai"
        ready = {"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}}
        path = f"apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}/status"
        await asyncio.to_thread(server.ask, "PATCH", path, ready, MERGE)
        await until(
            server, "served", lambda run: condition(run, "EnvironmentsReady")["status"] == "True"
        )


async def test_scaled_environment_has_a_budget_and_is_scaled(server, outside):
    environment = SERVED["environments"][0] | {"scaling": {"minReplicas": 2, "maxReplicas": 5}}
    async with outside.operating():
        made = await asyncio.to_thread(
            server.create, manifest("scaled", SERVED | {"environments": [environment]})
        )
        await until(server, "scaled", lambda run: state(run) == "Running")
        name = f"scaled-{made['metadata']['uid'][:8]}-babyai"
        base = f"namespaces/{NAMESPACE}"
        deployment = f"apis/apps/v1/{base}/deployments/{name}"
        found = await asyncio.to_thread(server.ask, "GET", deployment)
        assert found["spec"]["replicas"] == 2
        budget = f"apis/policy/v1/{base}/poddisruptionbudgets/{name}"
        found = await asyncio.to_thread(server.ask, "GET", budget)
        assert found["spec"]["maxUnavailable"] == 1

        fleet, run = outside.cluster.fleet, resource.read(made, outside.platform)
        await fleet.scale(NAMESPACE, name, 4)
        found = await asyncio.to_thread(server.ask, "GET", deployment)
        assert found["spec"]["replicas"] == 4
        (scaled,) = run.run.spec.environments
        wanted = autoscaling.autoscaler(run, scaled, scaled.scaling)
        await fleet.apply_autoscaler(wanted)
        await fleet.apply_autoscaler(wanted)
        autoscaler = f"apis/autoscaling/v2/{base}/horizontalpodautoscalers/{name}"
        found = await asyncio.to_thread(server.ask, "GET", autoscaler)
        assert (found["spec"]["minReplicas"], found["spec"]["maxReplicas"]) == (2, 5)
        assert not await fleet.serves_metric(autoscaling.METRIC)
        await fleet.delete_autoscaler(NAMESPACE, name)
        await until_gone(server, autoscaler)


async def test_spec_suspend_stops_and_resumes_a_run(server, outside):
    async with outside.operating():
        await asyncio.to_thread(server.create, manifest("paused"))
        run = await until(server, "paused", lambda run: state(run) == "Running")
        path = f"{RUNS}/paused"
        await asyncio.to_thread(server.ask, "PATCH", path, {"spec": {"suspend": True}}, MERGE)
        await until(
            server, "paused", lambda run: condition(run, "Suspended")["reason"] == "Suspending"
        )
        outside.kfp.end(run["status"]["kfpRun"], "FAILED")
        await until(server, "paused", lambda run: state(run) == "Suspended")
        await asyncio.to_thread(server.ask, "PATCH", path, {"spec": {"suspend": False}}, MERGE)
        again = await until(server, "paused", lambda run: state(run) == "Running")
        assert (again["status"]["attempt"], again["status"]["failures"]) == (1, 0)


async def test_a_deleted_run_stops_its_work_and_is_removed(server, outside):
    async with outside.operating():
        await asyncio.to_thread(server.create, manifest("deleted"))
        run = await until(server, "deleted", lambda run: state(run) == "Running")
        kfp_run = run["status"]["kfpRun"]
        await asyncio.to_thread(server.ask, "DELETE", f"{RUNS}/deleted")
        async with asyncio.timeout(PATIENCE_S):
            while outside.kfp.states[kfp_run] != "CANCELING":
                await asyncio.sleep(0.02)
        outside.kfp.end(kfp_run, "FAILED")
        await until_gone(server, f"{RUNS}/deleted")


async def test_an_operator_that_starts_later_continues_existing_runs(server, outside):
    await asyncio.to_thread(server.create, manifest("early"))
    async with outside.operating():
        run = await until(server, "early", lambda run: state(run) == "Running")
    successor = Outside()
    successor.kfp, successor.stores = outside.kfp, outside.stores
    successor.finish_phase(run, 0, "finish")
    async with successor.operating():
        await until(server, "early", lambda run: state(run) == "Succeeded")
    started = [one for one in outside.kfp.submitted if one.name.startswith("early:")]
    assert len(started) == 1


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


def changed(path, value):
    spec = copy.deepcopy(SERVED)
    where = spec
    *parents, last = path.split(".")
    for name in parents:
        where = where[int(name)] if isinstance(where, list) else where.setdefault(name, {})
    where[int(last) if isinstance(where, list) else last] = value
    return spec


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


def test_a_part_of_the_spec_is_owned_as_a_whole(server):
    made = server.create(manifest("owned"))
    server.ask("DELETE", f"{RUNS}/owned")

    (creator,) = made["metadata"]["managedFields"]
    assert creator["fieldsV1"]["f:spec"]["f:algorithm"] == {}
    assert creator["fieldsV1"]["f:spec"]["f:suspend"] == {}


def test_another_controller_can_own_a_condition_of_its_own(server):
    """The list of conditions is a map by type, as in Kubernetes' own resources: a server-side apply
    of one condition leaves the others and the rest of the status alone."""

    def condition(kind):
        return {
            "type": kind,
            "status": "True",
            "reason": "Checked",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }

    server.create(manifest("shared"))
    path = f"{RUNS}/shared"
    status = {"state": "Running", "conditions": [condition("Accepted")]}
    server.ask("PATCH", f"{path}/status", {"status": status}, MERGE)
    identity = {"apiVersion": "agentrl.dev/v1alpha1", "kind": "AgentRLRun"}
    applied = identity | {
        "metadata": {"name": "shared", "namespace": NAMESPACE},
        "status": {"conditions": [condition("Audited")]},
    }
    apply = "application/apply-patch+yaml"
    server.ask("PATCH", f"{path}/status?fieldManager=auditor", applied, apply)
    found = server.ask("GET", path)["status"]
    server.ask("DELETE", path)
    assert found["state"] == "Running"
    assert [one["type"] for one in found["conditions"]] == ["Accepted", "Audited"]


def test_the_api_server_refuses_a_name_that_is_too_long(server):
    with pytest.raises(Refused, match=r"metadata\.name"):
        server.create(manifest("a" * 53))


@pytest.fixture(scope="module")
def lasting(server):
    """A run to edit."""
    server.create(manifest("lasting", SERVED))
    yield f"{RUNS}/lasting"
    server.ask("DELETE", f"{RUNS}/lasting")


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("seed", 7, "spec.seed"),
        ("model.context", 2048, "spec.model.context"),
        ("model.lora", {}, "spec.model.lora"),
        ("algorithm.name", "ppo", "spec.algorithm.name"),
        ("horizon.phases.0.iterations", 3, "spec.horizon.phases"),
        ("warmStart", {"algorithm": "hindsight"}, "spec.warmStart"),
        ("rollout.tasks", 17, "spec.rollout.tasks"),
        ("update.learningRate", 1e-3, "spec.update.learningRate"),
        ("evaluation.every", 3, "spec.evaluation.every"),
        ("storage", {"url": "s3://other/place", "endpoint": "s3.test"}, "spec.storage.url"),
        ("environments.0.name", "other", "spec.environments"),
        ("environments.0.options", {"levels": ["a"]}, "spec.environments[0].options"),
        ("environments.0.weight", 2, "spec.environments[0].weight"),
        ("environments.0.replicas", 0, "spec.environments[0].replicas"),
        (
            "environments",
            [{"name": "babyai", "builtin": "babyai"}, {"name": "more", "builtin": "corridor"}],
            "spec.environments",
        ),
        (
            "environments.0",
            {"name": "babyai", "image": "registry.test/own:1"},
            "spec.environments[0].image",
        ),
    ],
)
def test_fields_that_determine_results_are_immutable(server, lasting, path, value, field):
    current = server.ask("GET", lasting)
    with pytest.raises(
        Refused, match=r"(is immutable|cannot be changed from or to 0) while the run exists"
    ) as refused:
        server.ask("PUT", lasting, current | {"spec": changed(path, value)})
    assert f"{field}: " in str(refused.value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("environments.0.replicas", 3),
        ("environments.0.memory", "2Gi"),
        ("environments.0.secretEnv", [{"name": "KEY", "secret": "judge", "key": "key"}]),
        ("rollout.concurrency", 8),
        ("update.keepLast", 5),
        ("compute.memory", "8Gi"),
        ("compute.placement", "disaggregated"),
        ("storage.onDelete", "delete"),
        ("tracking.uri", "http://mlflow.test"),
        ("activeDeadlineSeconds", 60),
        ("backoffLimit", 9),
    ],
)
def test_fields_that_do_not_affect_results_are_mutable(server, lasting, path, value):
    current = server.ask("GET", lasting)
    server.ask("PUT", lasting, current | {"spec": changed(path, value)})


async def test_more_servers_and_more_memory_reach_a_run_at_work(server, outside):
    async with outside.operating():
        made = await asyncio.to_thread(server.create, manifest("grows", SERVED))
        await until(server, "grows", lambda run: state(run) == "Running")
        name = f"grows-{made['metadata']['uid'][:8]}-babyai"
        path = f"apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}"
        before = await asyncio.to_thread(server.ask, "GET", path)
        environment = {"name": "babyai", "builtin": "babyai", "replicas": 3, "memory": "1Gi"}
        change = {"spec": {"environments": [environment]}}
        await asyncio.to_thread(server.ask, "PATCH", f"{RUNS}/grows", change, MERGE)
        deadline = time.monotonic() + PATIENCE_S
        while (after := await asyncio.to_thread(server.ask, "GET", path))["spec"]["replicas"] != 3:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.03)
        (container,) = after["spec"]["template"]["spec"]["containers"]
        assert container["resources"]["limits"] == {"memory": "1Gi"}
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert len([one for one in outside.kfp.submitted if one.name.startswith("grows:")]) == 1


def test_the_status_is_a_subresource_that_an_edit_does_not_touch(server):
    server.create(manifest("split") | {"status": {"state": "Succeeded"}})
    assert "status" not in server.ask("GET", f"{RUNS}/split")
    server.ask("DELETE", f"{RUNS}/split")


async def test_a_relist_finds_what_a_watch_missed(server, outside):
    """`runs` lists every run, whatever the watch has shown."""
    for number in range(3):
        await asyncio.to_thread(
            server.create, manifest(f"listed-{number}", SPEC | {"suspend": True})
        )
    names = {body["metadata"]["name"] async for body in outside.cluster.list_runs(NAMESPACE)}
    await outside.cluster.close()

    assert {"listed-0", "listed-1", "listed-2"} <= names
    for number in range(3):
        await asyncio.to_thread(server.ask, "DELETE", f"{RUNS}/listed-{number}")


async def test_no_finalizer_is_added_to_a_deleted_or_changed_run(server, outside):
    body = await asyncio.to_thread(server.create, manifest("fleeting"))
    changed = {"metadata": {"labels": {"a": "b"}}}
    await asyncio.to_thread(server.ask, "PATCH", f"{RUNS}/fleeting", changed, MERGE)
    with pytest.raises(KubernetesError) as caught:
        await outside.cluster.add_finalizer(body)
    assert (caught.value.status, caught.value.retryable) == (409, True)
    await asyncio.to_thread(server.ask, "DELETE", f"{RUNS}/fleeting")

    assert await outside.cluster.add_finalizer(body) == {}
    await outside.cluster.close()


async def test_a_request_without_permission_fails_with_a_clear_error(server, outside):
    with pytest.raises(KubernetesError, match="forbidden") as caught:
        await outside.cluster.ping("default")
    await outside.cluster.close()

    assert not caught.value.retryable


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
