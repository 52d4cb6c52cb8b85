"""What `spec.edits` fixes, as rules that an API server holds an edit against.

A rule stands at the field that it is about, so the refusal names it. A field that may be absent is
watched from the object around it, since no rule of its own is asked where it comes or goes. Where a
field has no schema, as an environment's options, CEL sees values that change and keys that come or
go, but not keys that only take each other's place (measured on Kubernetes 1.36).

To compare two objects, an API server copies the schemas of all their fields five times for each
field (also measured), and does so at each write of a status, too: the fields of a large object are
rather watched one by one.
"""

from __future__ import annotations

from typing import Any

from agentrl_components.spec.mutable import freedom

Schema = dict[str, Any]

NO_EDIT = "cannot change while the run lives; make a new run"
_LARGE = 5
"""Fields of an object, from which on it is cheaper to compare them one by one."""


def lock(schema: Schema, path: str = "", but: str | None = None) -> None:
    """Add to the structural schema of an object the rules that keep what is fixed below `path`, but
    for the field `but`."""
    for name, field in schema["properties"].items():
        inner = f"{path}.{name}" if path else name
        always = name in schema.get("required", ()) or "default" in field
        match freedom(inner), field["type"]:
            case _ if name == but:
                pass
            case "partly", "array":
                _lock_items(field, inner)
            case "partly", _:
                lock(field, inner)
            case "fixed", _ if always and len(field.get("properties", ())) >= _LARGE:
                lock(field, inner)
            case "fixed", _ if always:
                _add(field, {"rule": "self == oldSelf", "message": _says(inner)})
            case "fixed", _:
                same = (
                    f"has(self.{name}) == has(oldSelf.{name})"
                    f" && (!has(self.{name}) || self.{name} == oldSelf.{name})"
                )
                _add(schema, {"rule": same, "message": _says(inner), "fieldPath": f".{name}"})


def _lock_items(field: Schema, path: str) -> None:
    """Of a list whose items have names: which there are is fixed, and some of what they hold."""
    (key,) = field["x-kubernetes-list-map-keys"]
    names = f"map(item, item.{key})"
    _add(
        field,
        {
            "rule": f"self.{names} == oldSelf.{names}",
            "message": f"{path}: which there are, and their order, {NO_EDIT}",
        },
    )
    lock(field["items"], f"{path}.*", but=key)


def served_or_not(replicas: Schema) -> None:
    """A built-in environment stays inside the stages, or outside: only servers are counted."""
    _add(
        replicas,
        {
            "rule": "(self == 0) == (oldSelf == 0)",
            "message": "environments[].replicas cannot become 0, nor be raised from 0, while the "
            "run lives; make a new run",
        },
    )


def _says(path: str) -> str:
    return f"{path.replace('.*', '[]')} {NO_EDIT}"


def _add(schema: Schema, rule: Schema) -> None:
    schema.setdefault("x-kubernetes-validations", []).append(rule)
