"""CEL transition rules, by which the API server rejects changes of immutable fields.

Each rule is attached to the field that it protects, so the error names that field. An optional
field is protected by a rule of the enclosing object, because rules of a field are not evaluated
when the field is added or removed. In a field without a schema, such as the options of an
environment, CEL detects changed values and added or removed keys, but not the replacement of one
key by another (measured on Kubernetes 1.36).

To compare two objects, an API server copies the schemas of all their fields five times per field
(also measured), at every write, including writes of `status`. The fields of a large object are
therefore compared one by one.
"""

from __future__ import annotations

from typing import Any

from agentrl_components.spec.mutable import mutability

Schema = dict[str, Any]

IMMUTABLE = "is immutable while the run exists; create a new run"
_LARGE_OBJECT = 5
"""Number of fields from which it is cheaper to compare an object's fields one by one."""


def lock(schema: Schema, path: str = "", exclude: str | None = None) -> None:
    """Add transition rules for all immutable fields below `path` to an object's structural schema,
    except for the field `exclude`."""
    for name, field in schema["properties"].items():
        inner = f"{path}.{name}" if path else name
        always = name in schema.get("required", ()) or "default" in field
        match mutability(inner), field["type"]:
            case _ if name == exclude:
                pass
            case "partly", "array":
                _lock_items(field, inner)
            case "partly", _:
                lock(field, inner)
            case "immutable", _ if always and len(field.get("properties", ())) >= _LARGE_OBJECT:
                lock(field, inner)
            case "immutable", _ if always:
                _add(field, {"rule": "self == oldSelf", "message": _message(inner)})
            case "immutable", _:
                same = (
                    f"has(self.{name}) == has(oldSelf.{name})"
                    f" && (!has(self.{name}) || self.{name} == oldSelf.{name})"
                )
                _add(schema, {"rule": same, "message": _message(inner), "fieldPath": f".{name}"})


def _lock_items(field: Schema, path: str) -> None:
    """Add rules to a list with named items: the names, their order and some fields of the items are
    immutable."""
    (key,) = field["x-kubernetes-list-map-keys"]
    names = f"map(item, item.{key})"
    _add(
        field,
        {
            "rule": f"self.{names} == oldSelf.{names}",
            "message": f"the list of {path}, including its order, {IMMUTABLE}",
        },
    )
    lock(field["items"], f"{path}.*", exclude=key)


def lock_zero_replicas(replicas: Schema) -> None:
    """Add a rule that forbids changing `replicas` from or to 0: an environment cannot move between
    a server and the stages."""
    _add(
        replicas,
        {
            "rule": "(self == 0) == (oldSelf == 0)",
            "message": "environments[].replicas cannot be changed from or to 0 while the run "
            "exists; create a new run",
        },
    )


def lock_presence(holder: Schema, path: str) -> None:
    """Add a rule to the object that has the optional field at `path`, by which the field may be
    neither added nor removed."""
    name = path.rpartition(".")[2]
    _add(
        holder,
        {
            "rule": f"has(self.{name}) == has(oldSelf.{name})",
            "message": f"{path} cannot be added or removed while the run exists; create a new run",
            "fieldPath": f".{name}",
        },
    )


def _message(path: str) -> str:
    return f"{path.replace('.*', '[]')} {IMMUTABLE}"


def _add(schema: Schema, rule: Schema) -> None:
    schema.setdefault("x-kubernetes-validations", []).append(rule)
