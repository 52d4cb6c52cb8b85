"""The CustomResourceDefinition of `AgentRLRun`, generated from the models.

Kubernetes requires a structural schema, which is stricter than JSON Schema: no references, no
unions, no constants, `nullable` for fields that may be null, and a maximum size of every list,
string and map, from which the API server estimates the cost of CEL rules. Relations between fields
are the rules of `spec.rules` that CEL can express; the operator reports violations of the others in
a condition.
"""

from __future__ import annotations

import copy
import re
from typing import Any

import yaml

from agentrl_components.spec.crd.locks import lock, lock_presence, lock_zero_replicas
from agentrl_components.spec.crd.status import COLUMNS, STATUS
from agentrl_components.spec.fields.run import GROUP, KIND, VERSION, RunSpec
from agentrl_components.spec.mutable import LASTING, mutability
from agentrl_components.spec.rules.validation import RULES

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
        "description": "A training run: model, environments, algorithm and horizon schedule.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec_schema(),
            "status": STATUS,
        },
        "x-kubernetes-validations": [
            _on_creation(
                {
                    "rule": "size(self.metadata.name) <= 52"
                    " && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
                    "message": "metadata.name must have at most 52 characters: lower-case letters, "
                    "digits and dashes, starting with a letter",
                }
            )
        ],
    }


def spec_schema() -> Schema:
    """The structural schema of `spec`, including its CEL rules."""
    source = RunSpec.model_json_schema(by_alias=True)
    schema = structural(source, source.get("$defs", {}))
    for rule in RULES:
        if rule.cel is not None:
            _attach(schema, rule.cel, rule.message, rule.reads)
    environments = schema["properties"]["environments"]
    environments["x-kubernetes-list-type"] = "map"
    environments["x-kubernetes-list-map-keys"] = ["name"]
    lock(schema)
    lock_zero_replicas(environments["items"]["properties"]["replicas"])
    for path in LASTING:
        holder = schema
        for name in path.split(".")[:-1]:
            holder = holder["properties"][name]
        lock_presence(holder, path)
    _require_s3(schema["properties"]["storage"]["properties"]["url"])
    for part in (*schema["properties"].values(), environments["items"]):
        if "properties" in part:
            part["x-kubernetes-map-type"] = "atomic"
    return schema


def _default(schema: Schema) -> Any:
    """The default with all nested defaults filled in: otherwise Kubernetes does not evaluate the
    rules of an object that is left out."""
    if schema.get("default") != {} or "properties" not in schema:
        return schema["default"]
    inner = {name: one for name, one in schema["properties"].items() if "default" in one}
    return {name: _default(one) for name, one in inner.items()}


def _attach(schema: Schema, cel: str, message: str, reads: tuple[str, ...]) -> None:
    """Attach a rule to the innermost object that contains all fields that it reads. When a rule
    reads a field of `self`, the API server copies the schemas of all fields of that object, so
    rules of the outermost object are expensive.

    The error names the first of `reads`; if that is in a list, the list."""
    field = reads[0].split(".*")[0].split(".")
    accesses = [path.split(".")[1:] for path in re.findall(r"\bself((?:\.\w+)+)", cel)]
    home: list[str] = []
    for names in zip(field, *accesses, strict=False):
        inner = schema.get("properties", {}).get(names[0], {})
        always = "default" in inner or names[0] in schema.get("required", ())
        if len(set(names)) > 1 or not always or inner["type"] not in ("object", "array"):
            break
        schema, home = inner, [*home, names[0]]
    rule = {"rule": cel.replace(".".join(("self", *home)), "self"), "message": message}
    if all(mutability(read) == "immutable" for read in reads):
        rule = _on_creation(rule)
    if field[len(home) :]:
        rule["fieldPath"] = "." + ".".join(field[len(home) :])
    schema.setdefault("x-kubernetes-validations", []).append(rule)
    if "default" in schema:
        schema["default"] = _default(schema)


def _on_creation(rule: Schema) -> Schema:
    """A rule that is only evaluated on creation, because all fields that it reads are immutable.
    Otherwise the API server evaluates it at every write, even of status and finalizers."""
    return rule | {"rule": f"oldSelf.hasValue() || ({rule['rule']})", "optionalOldSelf": True}


def _require_s3(url: Schema) -> None:
    """Require s3:// addresses on a cluster, where pods share no folder."""
    url["x-kubernetes-validations"] = [
        {
            "rule": "self.startsWith('s3://')",
            "message": "must be an s3:// address, since pods share no folder; or leave it out",
        }
    ]


def structural(source: Schema, definitions: Schema) -> Schema:
    """The Kubernetes structural schema of a JSON Schema from pydantic.

    Raises `TypeError` for unions."""
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
    if schema.get("minimum", 0) % 1:
        # The API server compares integers such as 0 with the integer part of a bound.
        schema["x-kubernetes-validations"] = [
            {
                "rule": f"self >= {schema['minimum']}",
                "message": f"must be at least {schema['minimum']}",
            }
        ]
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
    """`X | None`: the schema of X with `nullable`. A default of None is left out."""
    kinds = [kind for kind in source["anyOf"] if kind.get("type") != "null"]
    if len(kinds) != 1:
        raise TypeError(f"a structural schema has no unions: {source['anyOf']}")
    outer = {key: source[key] for key in ("description", "default") if key in source}
    if outer.get("default", ...) is None:
        del outer["default"]
    return structural(kinds[0] | outer, definitions) | {"nullable": True}
