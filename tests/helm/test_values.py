"""values.yaml and its schema."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

CHART = Path(__file__).parents[2] / "helm" / "agentrl"
Manifest = dict[str, Any]
Template = Callable[..., subprocess.CompletedProcess[str]]

SCHEMA: Manifest = json.loads((CHART / "values.schema.json").read_text())
VALUES: Manifest = yaml.safe_load((CHART / "values.yaml").read_text())


def resolved(schema: Manifest) -> Manifest:
    reference = schema.get("$ref")
    return SCHEMA["definitions"][reference.rsplit("/", 1)[1]] if reference else schema


def leaves(schema: Manifest, at: str = "") -> Iterator[str]:
    """Paths of all values that the schema names."""
    for name, below in schema["properties"].items():
        below = resolved(below)
        if "properties" in below and name != "resources":
            yield from leaves(below, f"{at}{name}.")
        else:
            yield f"{at}{name}"


def known(values: Manifest, path: str) -> bool:
    at: Any = values
    for name in path.split("."):
        if not isinstance(at, dict) or name not in at:
            return False
        at = at[name]
    return True


def test_every_value_of_the_schema_has_a_default_in_values_yaml() -> None:
    missing = [path for path in leaves(SCHEMA) if not known(VALUES, path)]
    assert missing == ["global"]


def test_every_value_has_a_comment_above_it() -> None:
    lines = (CHART / "values.yaml").read_text().splitlines()
    undocumented = []
    for number, line in enumerate(lines):
        leaf = re.match(r"^\s*([A-Za-z]+):( .+)?$", line)
        nested = leaf and leaf[2] is None
        inside = leaf and leaf[1] in ("requests", "limits")
        if leaf and not nested and not inside and not lines[number - 1].lstrip().startswith("#"):
            undocumented.append(line.strip())
    assert undocumented == []


def objects(schema: Manifest, at: str = "") -> Iterator[tuple[str, Manifest]]:
    schema = resolved(schema)
    if schema.get("type") == "object":
        yield at, schema
    for name, below in schema.get("properties", {}).items():
        yield from objects(below, f"{at}{name}.")


def test_only_objects_that_kubernetes_validates_accept_unknown_fields() -> None:
    free = [at for at, one in objects(SCHEMA) if "additionalProperties" not in one]
    assert free == ["global.", "operator.affinity."]


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"pollSecond": 5}, "pollSecond"),
        ({"pollSeconds": "often"}, "/pollSeconds"),
        ({"kfp": {"url": "ml-pipeline:8888"}}, "/kfp/url"),
        ({"kueue": {"admission": "jobs"}}, "/kueue/admission"),
        ({"kfp": {"nameSpace": "kubeflow"}}, "nameSpace"),
        ({"storage": {"url": "minio://bucket"}}, "/storage/url"),
        ({"storage": {"secretAccessKey": "hunter2"}}, "secretAccessKey"),
        ({"storage": {"others": [{"endpoint": "s3.test"}]}}, "existingSecret"),
        ({"storage": {"endpoint": "http://me:secret@minio:9000"}}, "/storage/endpoint"),
        ({"storage": {"endpoint": "me:secret@minio:9000"}}, "/storage/endpoint"),
        ({"storage": {"endpoint": "minio:abc"}}, "/storage/endpoint"),
        ({"storage": {"endpoint": "minio:65536"}}, "/storage/endpoint"),
        ({"storage": {"others": [{"endpoint": "minio:0"}]}}, "/storage/others/0/endpoint"),
        ({"storage": {"url": "s3://My_Bucket"}}, "/storage/url"),
        ({"storage": {"url": "s3://models/a#"}}, "/storage/url"),
        ({"storage": {"url": "s3://models/../a"}}, "/storage/url"),
        ({"tracking": {"uri": "http://me:secret@mlflow:5000"}}, "/tracking/uri"),
        ({"tracking": {"uiUrl": "http://me:secret@mlflow:5000"}}, "/tracking/uiUrl"),
        ({"kfp": {"url": "http://me:secret@ml-pipeline:8888"}}, "/kfp/url"),
        ({"kfp": {"uiUrl": "https://me:secret@kubeflow"}}, "/kfp/uiUrl"),
        ({"tracking": {"others": ["mlflow:5000"]}}, "/tracking/others/0"),
        ({"fullnameOverride": "a.b"}, "/fullnameOverride"),
        ({"images": {"pullPolicy": "Sometimes"}}, "/images/pullPolicy"),
        ({"images": {"stage": {"repository": "a/b:1"}}}, "/images/stage/repository"),
        ({"watchNamespaces": ["Team A"]}, "/watchNamespaces/0"),
        ({"operator": {"resources": {"limits": {"memory": "much"}}}}, "/operator/resources/limits"),
        ({"minio": {"persistence": {"size": "big"}}}, "/minio/persistence/size"),
        ({"metrics": {"serviceMonitor": {"interval": 30}}}, "/metrics/serviceMonitor/interval"),
    ],
)
def test_an_invalid_value_is_rejected_by_name(
    template: Template, values: Manifest, named: str
) -> None:
    ended = template(values)
    assert ended.returncode != 0
    assert named in ended.stderr


TRIAL: Manifest = {
    "minio": {"enabled": True, "persistence": {"enabled": True, "storageClassName": "fast"}},
    "mlflow": {
        "enabled": True,
        "allowedHosts": ["mlflow.test"],
        "persistence": {"enabled": True, "storageClassName": "fast"},
    },
    "metrics": {
        name: {"enabled": True, "labels": {"a": "b"}}
        for name in ("serviceMonitor", "podMonitor", "prometheusRule", "dashboard")
    },
    "kfp": {"uiUrl": "https://kfp.test"},
    "nameOverride": "name",
}
"""Values with the servers for trials and the objects for Prometheus."""
OWN: Manifest = {
    "fullnameOverride": "whole",
    "commonLabels": {"a": "b"},
    "commonAnnotations": {"a": "b"},
    "watchNamespaces": ["team"],
    "kueue": {"admission": "run"},
    "kfp": {"multiUser": True, "url": "http://kfp.test"},
    "storage": {
        "url": "s3://runs",
        "endpoint": "s3.test",
        "region": "north",
        "existingSecret": "keys",
        "others": [
            {
                "endpoint": "other.test",
                "region": "south",
                "existingSecret": "others",
                "accessKey": "id",
                "secretKey": "key",
            }
        ],
    },
    "tracking": {
        "uri": "http://mlflow.test",
        "uiUrl": "https://mlflow.test",
        "existingSecret": "login",
        "tokenKey": "token",
        "others": ["http://other.test"],
    },
    "caBundle": {"configMap": "ca"},
    "proxy": {"http": "http://proxy", "https": "http://proxy", "noProxy": ["host.test"]},
    "images": {"pullSecrets": ["pull"]},
    "serviceAccount": {"name": "account", "annotations": {"a": "b"}},
    "networkPolicy": {"apiServerCidrs": ["10.0.0.1/32"]},
    "operator": {
        "priorityClassName": "high",
        "podLabels": {"a": "b"},
        "podAnnotations": {"a": "b"},
        "nodeSelector": {"a": "b"},
    },
    "metrics": {"dashboard": {"enabled": True, "annotations": {"a": "b"}}},
}
"""Values with a store and an MLflow of one's own, all in a multi-user Kubeflow Pipelines."""
UNTESTED = re.compile(r"images\..*\.(repository|tag|digest)|.*\.(image|bucket)|.*resources")
"""Strings of which only a part of a longer word is rendered, and amounts, which may be numbers."""


def merged(values: Manifest, changes: Manifest) -> Manifest:
    return values | {
        name: merged(values.get(name) or {}, below) if isinstance(below, dict) else below
        for name, below in changes.items()
    }


def with_text(schema: Manifest, value: Any, text: str, put: str) -> Any:
    """`value` with `put` in place of each string that is set and that may be `text`."""
    schema = resolved(schema)
    if isinstance(value, dict):
        fields, others = schema.get("properties", {}), schema.get("additionalProperties") or {}
        return {
            name: with_text(fields.get(name, others), one, text, put) for name, one in value.items()
        }
    if isinstance(value, list):
        return [with_text(schema.get("items", {}), one, text, put) for one in value]
    fits = schema.get("type") == "string" and re.search(schema.get("pattern", ""), text)
    return put if value and fits else value


def given(value: Any, at: str = "") -> Iterator[str]:
    """Paths of the strings in `value` that are set."""
    if isinstance(value, dict):
        for name, below in value.items():
            yield from given(below, f"{at}.{name}" if at else name)
    elif isinstance(value, list):
        for below in value:
            yield from given(below, at)
    elif isinstance(value, str) and value:
        yield at


class GoLoader(yaml.SafeLoader):
    """Reads words as Helm and Kubernetes do: 1e3 is a number."""


GoLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def types(value: Any, at: str = "") -> dict[str, str]:
    """The type of every scalar of a document, by its path; of platform.yaml, that of its own."""
    if at.endswith(".platform.yaml"):
        value = yaml.load(value, GoLoader)
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        parts = [types(below, f"{at}.{name}") for name, below in items]
        return {path: kind for part in parts for path, kind in part.items()}
    return {at: type(value).__name__}


def test_every_string_value_is_set_by_the_values_of_the_next_test() -> None:
    strings = (path for path in leaves(SCHEMA) if not UNTESTED.fullmatch(path))
    named = {path for values in (TRIAL, OWN) for path in given(merged(VALUES, values))}
    known_as = {path for one in named for path in (one, one.rpartition(".")[0])}
    assert [path for path in strings if holds_strings(path) and path not in known_as] == []


def holds_strings(path: str) -> bool:
    schema = SCHEMA
    for name in path.split("."):
        schema = resolved(schema["properties"][name])
    items = resolved(schema.get("items") or schema.get("additionalProperties") or {})
    return "string" in (schema.get("type"), items.get("type"))


@pytest.mark.parametrize("values", [TRIAL, OWN], ids=["trial", "own"])
def test_strings_that_look_like_other_types_of_yaml_remain_strings(
    template: Template, values: Manifest
) -> None:
    """Regression: the namespace 2024 became a number in platform.yaml and ended the operator."""

    def rendered(text: str, put: str) -> dict[str, str]:
        full = with_text(SCHEMA, merged(VALUES, values), text, put) | {"crds": {"enabled": False}}
        name = put if text.isalnum() else "release"
        ended = template(full, namespace=name, release=name)
        assert ended.returncode == 0, ended.stderr
        return types([one for one in yaml.load_all(ended.stdout, GoLoader) if one])

    for text in ("2024", "true", "1e3", "a, b: c"):
        assert rendered(text, text).items() ^ rendered(text, "plain").items() == set(), text
