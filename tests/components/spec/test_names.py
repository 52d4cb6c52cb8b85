"""Names in a manifest that Kubernetes would refuse in the objects of the run."""

from typing import Any

import pytest

from agentrl_components.errors import SpecError
from agentrl_components.spec import parse

SECRET = {"name": "TOKEN", "secret": "hub", "key": "token"}


def refused(compute: dict[str, Any], **metadata: str) -> bool:
    manifest = {
        "apiVersion": "agentrl.dev/v1alpha1",
        "kind": "AgentRLRun",
        "metadata": {"name": "run"} | metadata,
        "spec": {
            "environments": [{"name": "walk", "builtin": "corridor"}],
            "horizon": {"phases": [{"maxTurns": 3, "iterations": 2}]},
            "compute": compute,
        },
    }
    try:
        parse(manifest)
    except SpecError:
        return True
    return False


@pytest.mark.parametrize("name", ["a..b", "a.-b", "a-.b", ".a", "a.", "A", "a_b", "a" * 254, ""])
def test_a_name_of_an_object_is_a_dns_subdomain(name):
    assert refused({"serviceAccount": name})
    assert refused({"secretEnv": [SECRET | {"secret": name}]})
    assert refused({"queue": name})


@pytest.mark.parametrize("name", ["a", "a.b-c.d", "0", "a" * 63, "team-a.b"])
def test_valid_names_of_objects_are_taken(name):
    assert not refused({"serviceAccount": name, "queue": name})
    assert not refused({"secretEnv": [SECRET | {"secret": name}]})


def test_a_queue_is_the_value_of_a_label_and_other_names_may_be_longer():
    assert refused({"queue": "a" * 64})
    assert not refused({"serviceAccount": "a" * 253})


@pytest.mark.parametrize(
    "key", ["a..b/c", "x-/y", "-x/y", "a.-b/c", "A/b", "a/", "/a", "a/b/c", "a" * 64]
)
def test_the_prefix_of_a_key_is_a_dns_subdomain(key):
    assert refused({"podLabels": {key: "a"}})
    assert refused({"podAnnotations": {key: "a"}})
    assert refused({"nodeSelector": {key: "a"}})
    assert refused({"tolerations": [{"key": key, "operator": "Exists"}]})


def test_a_key_is_not_too_long_for_a_prefix():
    assert refused({"podLabels": {"a" * 254 + "/b": "c"}})
    assert refused({"tolerations": [{"key": "a" * 254 + "/b", "operator": "Exists"}]})


@pytest.mark.parametrize("key", ["pool", "example.org/pool", "a.b-c.d/E_f.g", "x" * 180 + "/y"])
def test_valid_keys_are_taken(key):
    assert not refused({"podLabels": {key: "a"}, "nodeSelector": {key: "a"}})
    assert not refused({"tolerations": [{"key": key, "operator": "Exists"}]})


@pytest.mark.parametrize("key", [".", "..", "..a", "a b", ""])
def test_the_key_of_a_secret_is_no_relative_path(key):
    assert refused({"secretEnv": [SECRET | {"key": key}]})


@pytest.mark.parametrize("key", [".dockerconfigjson", "a..b", "-", "tls.crt"])
def test_valid_keys_of_secrets_are_taken(key):
    assert not refused({"secretEnv": [SECRET | {"key": key}]})


@pytest.mark.parametrize("namespace", ["A_b", "a.b", "-a", "a-", "a" * 64, ""])
def test_a_namespace_is_a_dns_label(namespace):
    assert refused({}, namespace=namespace)


@pytest.mark.parametrize("namespace", ["kubeflow", "team-1", "1", "a" * 63])
def test_valid_namespaces_are_taken(namespace):
    assert not refused({}, namespace=namespace)
