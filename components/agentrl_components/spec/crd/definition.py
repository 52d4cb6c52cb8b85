"""The CustomResourceDefinition of `AgentRLRun`, made from the models.

What Kubernetes asks of a schema and JSON Schema does not: no references, no unions, no constants,
`nullable` for what may be null, a bound on every list, text and mapping so that the cost of the CEL
rules can be estimated. The rules between fields are those of `spec.rules`, as far as CEL can say
them; the rest is told by the operator in a condition.
"""

from __future__ import annotations

import copy
import re
from typing import Any

import yaml

from agentrl_components.spec.crd.locks import lock, served_or_not
from agentrl_components.spec.crd.status import COLUMNS, STATUS
from agentrl_components.spec.fields.run import GROUP, KIND, VERSION, RunSpec
from agentrl_components.spec.mutable import freedom
from agentrl_components.spec.rules import RULES

Schema = dict[str, Any]

PLURAL = "agentrlruns"

_KEPT = (
    "type",
    "description",
    "default",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "pattern",
    "required",
)
_LONGEST_TEXT = 2048


def definition() -> Schema:
    """The CRD, ready for `kubectl apply`."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["arl"],
                "categories": ["all"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _root()},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": list(COLUMNS),
                }
            ],
        },
    }


def text() -> str:
    """The CRD as YAML."""
    return yaml.safe_dump(definition(), sort_keys=False, allow_unicode=True, width=100)


def _root() -> Schema:
    return {
        "type": "object",
        "description": "One run: a model, the worlds it must learn to act in, an algorithm and a "
        "horizon schedule.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec_schema(),
            "status": STATUS,
        },
        "x-kubernetes-validations": [
            _at_first(
                {
                    "rule": "size(self.metadata.name) <= 52"
                    " && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
                    "message": "metadata.name names everything that belongs to the run: at most 52 "
                    "characters, lower-case letters, digits and dashes, a letter first",
                }
            )
        ],
    }


def spec_schema() -> Schema:
    """The structural schema of `spec`, with its rules."""
    source = RunSpec.model_json_schema(by_alias=True)
    schema = structural(source, source.get("$defs", {}))
    for rule in RULES:
        if rule.cel is not None:
            _place(schema, rule.cel, rule.says, rule.reads)
    environments = schema["properties"]["environments"]
    environments["x-kubernetes-list-type"] = "map"
    environments["x-kubernetes-list-map-keys"] = ["name"]
    lock(schema)
    served_or_not(environments["items"]["properties"]["replicas"])
    _keep_off_folders(schema["properties"]["storage"]["properties"]["url"])
    for part in (*schema["properties"].values(), environments["items"]):
        if "properties" in part:
            part["x-kubernetes-map-type"] = "atomic"
    return schema


def _default(schema: Schema) -> Any:
    """The default with everything that is in it: only so does Kubernetes ask rules about it."""
    if schema.get("default") != {} or "properties" not in schema:
        return schema["default"]
    inner = {name: one for name, one in schema["properties"].items() if "default" in one}
    return {name: _default(one) for name, one in inner.items()}


def _place(schema: Schema, cel: str, says: str, reads: tuple[str, ...]) -> None:
    """Put a rule where everything is that it looks at. Whenever a rule reads a field of `self`, an
    API server copies the schemas of all fields beside it, so a rule at the top is a dear one.

    A broken rule is told of what it reads first; of a list, of the list."""
    field = reads[0].split(".*")[0].split(".")
    looks = [path.split(".")[1:] for path in re.findall(r"\bself((?:\.\w+)+)", cel)]
    home: list[str] = []
    for names in zip(field, *looks, strict=False):
        inner = schema.get("properties", {}).get(names[0], {})
        there = "default" in inner or names[0] in schema.get("required", ())
        if len(set(names)) > 1 or not there or inner["type"] not in ("object", "array"):
            break
        schema, home = inner, [*home, names[0]]
    rule = {"rule": cel.replace(".".join(("self", *home)), "self"), "message": says}
    if all(freedom(read) == "fixed" for read in reads):
        rule = _at_first(rule)
    if field[len(home) :]:
        rule["fieldPath"] = "." + ".".join(field[len(home) :])
    schema.setdefault("x-kubernetes-validations", []).append(rule)
    if "default" in schema:
        schema["default"] = _default(schema)


def _at_first(rule: Schema) -> Schema:
    """A rule that is asked when a run is made, and not again: nothing that it reads may change. An
    API server asks every rule at each write, of a status or a finalizer, too."""
    return rule | {"rule": f"oldSelf.hasValue() || ({rule['rule']})", "optionalOldSelf": True}


def _keep_off_folders(url: Schema) -> None:
    """On a cluster a run is kept in S3, and not on a disk of whatever node a pod is on."""
    url["x-kubernetes-validations"] = [
        {
            "rule": "self.startsWith('s3://')",
            "message": "pods share no folder; name an s3:// bucket, or leave it out",
        }
    ]


def structural(source: Schema, definitions: Schema) -> Schema:
    """A JSON Schema of pydantic as Kubernetes' structural schema."""
    if "$ref" in source:
        name = source["$ref"].rsplit("/", 1)[1]
        source = definitions[name] | {key: source[key] for key in source if key != "$ref"}
    if "anyOf" in source:
        return _nullable(source, definitions)
    schema: Schema = {key: copy.deepcopy(source[key]) for key in _KEPT if key in source}
    if "description" in schema:
        schema["description"] = " ".join(schema["description"].split())
    for bound in ("Minimum", "Maximum"):
        if f"exclusive{bound}" in source:
            schema[bound.lower()] = source[f"exclusive{bound}"]
            schema[f"exclusive{bound}"] = True
    if source.get("format") == "uri":
        schema["pattern"] = "^[hH][tT][tT][pP][sS]?://[^/]"
    if source.get("type") == "string" and "enum" not in source:
        schema.setdefault("maxLength", _LONGEST_TEXT)
    if "items" in source:
        schema["items"] = structural(source["items"], definitions)
    if "properties" in source:
        schema["properties"] = {
            name: structural(inner, definitions) for name, inner in source["properties"].items()
        }
        if "default" in schema:
            schema["default"] = {}
    elif source.get("type") == "object":
        values = source.get("additionalProperties")
        if isinstance(values, dict) and "type" in values:
            schema["additionalProperties"] = structural(values, definitions)
        else:
            schema["x-kubernetes-preserve-unknown-fields"] = True
    return schema


def _nullable(source: Schema, definitions: Schema) -> Schema:
    """`X | None`: the schema of X, which may be null. A default of null is no default."""
    kinds = [kind for kind in source["anyOf"] if kind.get("type") != "null"]
    if len(kinds) != 1:
        raise TypeError(f"a structural schema has no unions: {source['anyOf']}")
    outer = {key: source[key] for key in ("description", "default") if key in source}
    if outer.get("default", ...) is None:
        del outer["default"]
    return structural(kinds[0] | outer, definitions) | {"nullable": True}
