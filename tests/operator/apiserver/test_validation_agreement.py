"""`agentrl validate` and the API server give the same verdict on a manifest."""

from __future__ import annotations

import json
from typing import Any

import pytest
from apiserver import Refused, collection
from manifest_mutants import BASES, mutants

from agentrl_components.errors import SpecError
from agentrl_components.spec import parse

CLUSTER_ONLY = "must be an s3:// address, since pods share no folder"
"""The one rule of the API server that does not hold for local runs (docs/manifest.md)."""

OURS_ALONE = (
    ".a: null is not a string",  # the API server drops entries of a map that are null
    "has no instructions, which a pretrained model needs",  # of a builtin
)
"""Mistakes that the API server does not know. The operator reports them in a condition."""


def as_kubectl_sends(value: Any) -> Any:
    """`value` as kubectl converts it from YAML: whole numbers are written without a fraction."""
    if isinstance(value, dict):
        return {name: as_kubectl_sends(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [as_kubectl_sends(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    return value


def refusal(server: Any, manifest: dict[str, Any]) -> str | None:
    """Why the API server refuses to create `manifest`; None: it accepts it."""
    path = f"{collection(manifest)}?dryRun=All&fieldValidation=Strict"
    try:
        server.ask("POST", path, as_kubectl_sends(manifest))
    except Refused as refused:
        if refused.status not in (400, 422):
            raise
        return str(refused)
    return None


def mistakes(manifest: dict[str, Any]) -> list[str]:
    try:
        parse(manifest)
    except SpecError as error:
        return error.mistakes
    return []


def disagreements(server: Any, manifests: Any) -> list[str]:
    """Manifests that only one of the two accepts, with the reason of the other."""
    found = []
    for manifest in manifests:
        theirs, ours = refusal(server, manifest), mistakes(manifest)
        ours = [one for one in ours if not any(part in one for part in OURS_ALONE)]
        if (theirs is None) != (not ours) and CLUSTER_ONLY not in (theirs or ""):
            found.append(f"{json.dumps(manifest['spec'])}\n  {theirs or ours}")
    return found


@pytest.mark.parametrize("spec", BASES)
def test_the_bases_of_the_mutants_are_valid(api_server, spec):
    manifest = {
        "apiVersion": "agentrl.dev/v1alpha1",
        "kind": "AgentRLRun",
        "metadata": {"name": "base", "namespace": "default"},
        "spec": spec,
    }
    assert (refusal(api_server, manifest), mistakes(manifest)) == (None, [])


@pytest.mark.parametrize("seed", range(4))
def test_the_api_server_and_validate_agree_on_mutants(api_server, seed):
    assert disagreements(api_server, mutants(seed, 150)) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"seed": None},
        {"algorithm": {"critic": None}},
        {"rollout": {"tasks": 3.0}},
        {"rollout": {"temperature": 0}},
        {"model": {"lora": {"targets": ["q_proj", "q_proj"]}}},
        {"environments": [{"name": "a", "builtin": "babiai"}]},
        {"environments": [{"name": "a", "builtin": "my_package.world:MyTasks"}]},
        {"environments": [{"name": "a", "builtin": "my-world", "image": "a/b:1"}]},
        {"environments": [{"name": "a", "builtin": "my-world"}]},
        {"environments": [{"name": "a", "builtin": "my world:Tasks"}]},
        {"environments": [{"name": "a", "builtin": "own:Tasks", "url": "http://h:1"}]},
        {"environments": [{"name": "a", "builtin": "own:T", "image": "a/b:1", "replicas": 0}]},
        {"environments": [{"name": "a", "url": "http://h:1", "protocol": "agentgym"}]},
        {"environments": [{"name": "a", "builtin": "babyai", "protocol": "agentgym"}]},
        {"environments": [{"name": "a", "url": "http://h:70000"}]},
        {"environments": [{"name": "a", "url": "http://[::1:5000"}]},
        {"environments": [{"name": "a", "image": "a/b:1", "options": {"a": 1}}]},
        {"environments": [{"name": "a", "image": "a/b:1", "options": {}}]},
        {"environments": [{"name": "a", "builtin": "babyai", "options": {"a": 1}}]},
        {
            "environments": [
                {
                    "name": "a",
                    "url": "http://h:1",
                    "protocol": "agentgym",
                    "options": {"environment": "babyai"},
                }
            ]
        },
        {"storage": {"url": "s3://B/x", "endpoint": "minio:9000"}},
        {"storage": {"url": "s3://a..b/x", "endpoint": "minio:9000"}},
        {"storage": {"url": "s3://runs/x", "endpoint": "http://minio:90000"}},
        {"tracking": {"uri": "http://[::1:5000"}},
        {"tracking": {"uri": "http://[::::]"}},
        {"tracking": {"uri": "http://[fe80::1]:5000"}},
        {"tracking": {"uri": "http://[1:2:3:4:5:6:7:8]"}},
        {"tracking": {"uri": "http://[1:2:3:4:5:6:7]"}},
        {"tracking": {"uri": "http://[::ffff:10.0.0.1]:5000/x"}},
        {"tracking": {"uri": "http://[1::2::3]"}},
        {"compute": {"podLabels": {"a..b/c": "d"}}},
        {"compute": {"podLabels": {"x-/y": "d"}}},
        {"compute": {"podLabels": {"a" * 254 + "/b": "c"}}},
        {"compute": {"nodeSelector": {"a.b-c.d/E_f.g": "c"}}},
        {"compute": {"tolerations": [{"key": "a..b/c", "operator": "Exists"}]}},
        {"compute": {"queue": "a" * 64}},
        {"compute": {"queue": "a" * 63}},
        {"compute": {"serviceAccount": "a..b"}},
        {"compute": {"serviceAccount": "a" * 253}},
        {"compute": {"secretEnv": [{"name": "A", "secret": "a-.b", "key": "k"}]}},
        {"compute": {"secretEnv": [{"name": "A", "secret": "s", "key": ".."}]}},
        {"compute": {"secretEnv": [{"name": "A", "secret": "s", "key": ".k"}]}},
        {"tracking": {"registerAs": "team/agent"}},
        {"tracking": {"registerAs": "o'brien"}},
        {"tracking": {"registerAs": "..a"}},
        {"tracking": {"registerAs": "a\x7f"}},
        {"tracking": {"registerAs": ".Team Agent 1.ä"}},
    ],
    ids=str,
)
def test_they_agree_on_what_once_differed(api_server, fields):
    manifest = next(mutants(0, 1)) | {"spec": BASES[0] | fields}
    assert disagreements(api_server, [manifest]) == []


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({"compute": {"ray": "cluster", "device": "cuda"}}, True),
        ({"compute": {"ray": "embedded", "device": "auto"}}, False),
        ({"compute": {"ray": "embedded", "trainers": {"count": 2, "perPod": 2}}}, True),
        ({"compute": {"ray": "head:6379", "samplers": {"count": 2, "perPod": 2}}}, True),
        ({"compute": {"ray": "cluster", "samplers": {"count": 2, "perPod": 2}}}, False),
        ({"compute": {"ray": "embedded", "samplers": {"maxBatch": 8}}}, True),
        ({"compute": {"ray": "embedded", "samplers": {"memoryShare": 0.5}}}, True),
        ({"compute": {"ray": "embedded", "samplers": {"eager": True}}}, True),
        ({"compute": {"ray": "embedded", "samplers": {"memoryShare": 0.85}}}, False),
        ({"algorithm": {"name": "rloo", "scaleByStd": False}}, True),
        ({"algorithm": {"name": "gspo", "scaleByStd": False}}, False),
        ({"algorithm": {"name": "reinforce++", "dropZeroVariance": False}}, True),
        ({"algorithm": {"name": "rloo", "dropZeroVariance": False}}, False),
        ({"algorithm": {"importanceSampling": {"mode": "off", "cap": 3}}}, True),
        ({"algorithm": {"importanceSampling": {"mode": "mask", "cap": 3}}}, False),
    ],
    ids=str,
)
def test_both_refuse_fields_that_have_no_effect(api_server, fields, refused):
    manifest = next(mutants(0, 1)) | {"spec": BASES[0] | fields}
    assert (refusal(api_server, manifest) is not None, bool(mistakes(manifest))) == (
        refused,
        refused,
    )
