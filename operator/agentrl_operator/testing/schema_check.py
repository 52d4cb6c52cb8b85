"""What an API server refuses in a value, as far as the schema of `status` can say it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

_TYPES: Mapping[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool}


def violations(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """The rules of a structural schema that a JSON value breaks, each with the path of its field.
    The null of a merge patch removes a field and breaks none."""
    if value is None:
        return
    kind = schema["type"]
    if kind == "integer":
        if type(value) is not int or not schema.get("minimum", value) <= value < 2**63:
            yield f"{path}: {value!r} is no integer of the range"
        return
    if not isinstance(value, _TYPES[kind]):
        yield f"{path}: {value!r} is no {kind}"
        return
    if kind == "string":
        yield from _text_violations(value, schema, path)
    if kind == "array":
        if len(value) > schema["maxItems"]:
            yield f"{path}: more than {schema['maxItems']} items"
        for position, one in enumerate(value):
            yield from violations(one, schema["items"], f"{path}[{position}]")
    if kind == "object":
        # Fields that the schema does not know are pruned.
        for name in set(schema.get("required", ())) - value.keys():
            yield f"{path}.{name}: required"
        for name, one in schema["properties"].items():
            yield from violations(value.get(name), one, f"{path}.{name}")


def _text_violations(text: str, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    length, longest = len(text), schema.get("maxLength")
    if longest is not None and length > longest:
        yield f"{path}: Too long: may not be more than {longest} characters"
    if length < schema.get("minLength", 0):
        yield f"{path}: too short"
    if text not in schema.get("enum", (text,)):
        yield f"{path}: {text!r} is none of {schema['enum']}"
    if "pattern" in schema and not re.search(schema["pattern"], text):
        yield f"{path}: {text!r} does not match {schema['pattern']}"
    if schema.get("format") == "date-time":
        try:
            datetime.fromisoformat(text)
        except ValueError:
            yield f"{path}: {text!r} is no time"
