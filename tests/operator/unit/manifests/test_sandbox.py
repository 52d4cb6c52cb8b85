from demo_run import PLATFORM, SPEC, run

from agentrl_components.spec import Environment
from agentrl_operator.manifests import environment_server, sandbox

CODE = {"name": "code", "builtin": "corridor", "backend": "sandbox", "replicas": 2}


def made(**changes):
    resource = run(SPEC | {"environments": [CODE | changes]})
    environment = resource.run.spec.environments[0]
    return sandbox.manifests(resource, resource.run, environment, PLATFORM)


def fingerprint(**changes):
    resource = run(SPEC | {"environments": [CODE | changes]})
    environment = resource.run.spec.environments[0]
    return sandbox.fingerprint(resource, resource.run, environment, PLATFORM)


def test_each_server_is_a_sandbox_that_the_run_owns():
    found = made()
    assert [one["metadata"]["name"] for one in found] == [
        "demo-6a1b2c3d-code-0",
        "demo-6a1b2c3d-code-1",
    ]
    assert {(one["apiVersion"], one["kind"]) for one in found} == {
        ("agents.x-k8s.io/v1beta1", "Sandbox")
    }
    (owner,) = found[0]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("AgentRLRun", "demo", True)


def test_its_pod_is_the_one_that_a_deployment_would_have():
    resource = run(SPEC | {"environments": [CODE | {"backend": "deployment"}]})
    environment = resource.run.spec.environments[0]
    other = environment_server.deployment(resource, resource.run, environment, PLATFORM)
    spec = made()[0]["spec"]
    assert spec["podTemplate"] == other["spec"]["template"]
    assert (spec["operatingMode"], spec["service"]) == ("Running", False)
    selector = environment_server.service(resource, environment)["spec"]["selector"]
    assert selector.items() <= spec["podTemplate"]["metadata"]["labels"].items()


def test_the_pod_has_the_runtime_class_of_the_environment_in_both_backends():
    assert "runtimeClassName" not in made()[0]["spec"]["podTemplate"]["spec"]
    pod = made(runtimeClassName="gvisor")[0]["spec"]["podTemplate"]["spec"]
    assert pod["runtimeClassName"] == "gvisor"
    resource = run(
        SPEC | {"environments": [CODE | {"backend": "deployment", "runtimeClassName": "kata"}]}
    )
    environment = resource.run.spec.environments[0]
    other = environment_server.deployment(resource, resource.run, environment, PLATFORM)
    assert other["spec"]["template"]["spec"]["runtimeClassName"] == "kata"


def test_the_fingerprint_changes_with_the_pod_and_the_number_of_sandboxes():
    assert fingerprint() == fingerprint() == sandbox.found_fingerprint(made())
    others = {fingerprint(cpu="2"), fingerprint(replicas=3), fingerprint(runtimeClassName="kata")}
    assert len({fingerprint(), *others}) == 4
    assert sandbox.found_fingerprint(made()[:1]) != fingerprint()


def test_a_sandbox_is_ready_by_its_condition():
    assert not sandbox.is_ready({})
    for status, ready in (("True", True), ("False", False)):
        conditions = [
            {"type": "Suspended", "status": "True"},
            {"type": "Ready", "status": status},
        ]
        assert sandbox.is_ready({"status": {"conditions": conditions}}) == ready


def test_sandboxes_that_are_being_deleted_serve_no_environment():
    first, second = made()
    first["metadata"] |= {"deletionTimestamp": "2026-11-21T12:00:00Z"}
    environment = Environment.model_validate(CODE)
    assert sandbox.of_environment([first, second], environment) == [second]
    assert sandbox.of_environment([second], Environment(name="walk", builtin="corridor")) == []
