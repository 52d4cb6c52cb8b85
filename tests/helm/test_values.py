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
        ({"storage": {"url": "s3://My_Bucket"}}, "/storage/url"),
        ({"tracking": {"uri": "http://me:secret@mlflow:5000"}}, "/tracking/uri"),
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
