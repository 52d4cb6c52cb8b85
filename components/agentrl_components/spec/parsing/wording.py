"""Pydantic's validation errors as mistakes with a field, a reason and a fix."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from agentrl_components.spec.addresses import ENDPOINT, HTTP_URL
from agentrl_components.spec.fields.compute import RAY
from agentrl_components.spec.fields.environments import NAME
from agentrl_components.spec.fields.model import SOURCE
from agentrl_components.spec.fields.pods import IMAGE
from agentrl_components.spec.fields.run import GROUP, KIND, VERSION, AgentRLRun
from agentrl_components.spec.fields.storage import MODEL_NAME, STORE
from agentrl_components.spec.fields.warmstart import TRAJECTORIES
from agentrl_components.spec.quantities import MEMORY, QUANTITY
from agentrl_components.spec.rules.rule import Mistake

_KINDS = {
    "int_type": ("an integer", "write a whole number, such as 3, without quotes"),
    "int_from_float": ("an integer", "write a whole number, such as 3"),
    "float_type": ("a number", "write a number, such as 0.5, without quotes"),
    "bool_type": ("true or false", "write true or false, without quotes"),
    "string_type": ("a string", "put it in quotes"),
    "tuple_type": ("a list", "write each item on its own line after a dash"),
    "dict_type": ("a mapping", "write name: value pairs under it"),
    "model_type": ("a mapping", "write its fields under it, indented"),
}

_ALIASES: Mapping[str, str] = {"gpu": "cuda"}
"""Values of other tools, mapped to ours, where the spelling check would suggest a wrong one."""

_FORMATS: Mapping[str, tuple[str, str]] = {
    HTTP_URL: ("is not an HTTP URL", "write one, such as http://host:8000"),
    ENDPOINT: ("is not a host and port", "write one, such as minio:9000"),
    MODEL_NAME: (
        "is not a name of a model in MLflow",
        "use one such as team-agent, without /, :, %, backslashes and quotes",
    ),
    MEMORY: ("is not an amount of memory", "write one such as 512Mi, 8Gi or 8G"),
    QUANTITY: ("is not a quantity", "write one such as 2, 500m or 4Gi"),
    IMAGE: ("is not the name of an image", "write one such as registry/team/name:tag"),
    NAME: (
        "is not a name",
        "write small letters, digits and hyphens: a letter first and no hyphen at the end",
    ),
}
"""Reason and fix of texts that do not match a pattern."""

_ONLY = {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND}

_OBJECTS = (
    "use s3://bucket/prefix, with lower-case letters, digits, dots and dashes in the bucket, and a "
    "prefix without ?, # and control characters"
)

Location = tuple[int | str, ...]


def path(location: Location) -> str:
    """The path of a location: `('spec', 'phases', 1, 'maxTurns')` is `spec.phases[1].maxTurns`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".") or "manifest"


def field_names(location: Location) -> list[str]:
    """The field names of the mapping at `location`. Empty if the schema has no mapping there."""
    model = _model(AgentRLRun, location)
    return [str(field.alias) for field in model.model_fields.values()] if model else []


def mistake(error: ErrorDetails) -> Mistake:
    """The mistake that a pydantic error reports."""
    location = error["loc"]
    if location[-1] == "[key]":
        return Mistake(
            field=path(location[:-2]),
            reason=f"{_shown(error['input'])} is not a valid key",
            fix="write one such as team or example.org/team",
        )
    reason, fix = _words(error)
    return Mistake(field=path(location), reason=reason, fix=fix)


def unknown_field(location: Location) -> Mistake:
    """The mistake that the schema has no field at `location`."""
    reason, fix = _unknown(location)
    return Mistake(field=path(location), reason=reason, fix=fix)


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name most similar to `name`, or None if none is similar."""
    names = {_normalised(one): one for one in known}
    found = difflib.get_close_matches(_normalised(name), names, n=1, cutoff=0.6)
    return names[found[0]] if found else None


def _normalised(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _words(error: ErrorDetails) -> tuple[str, str]:
    kind, given, bounds = error["type"], error["input"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown(error["loc"])
    if kind == "missing":
        name = str(error["loc"][-1])
        return "is missing", f"set it to {_ONLY[name]}" if name in _ONLY else "set a value"
    if kind in _KINDS:
        noun, fix = _KINDS[kind]
        return f"{_shown(given)} is not {noun}", fix
    if kind == "literal_error":
        return _literal(given, str(bounds["expected"]))
    if kind == "finite_number":
        return f"{_shown(given)} is not finite", "write a finite number, or leave it out"
    return _bounded(kind, given, bounds) or (
        f"{_shown(given)}: {error['msg'][:1].lower()}{error['msg'][1:]}",
        "see docs/manifest.md",
    )


def _unknown(location: Location) -> tuple[str, str]:
    known = field_names(location[:-1])
    near = closest(str(location[-1]), known)
    fix = f"did you mean {near}?" if near else f"remove it; the fields are {', '.join(known)}"
    return "unknown field", fix


def _literal(given: Any, expected: str) -> tuple[str, str]:
    choices = expected.replace("'", "").replace(" or ", ", ").split(", ")
    if given is False and "off" in choices:
        return "off is false in YAML", 'put it in quotes: "off"'
    near = None
    if isinstance(given, str):
        alias = _ALIASES.get(given)
        near = alias if alias in choices else closest(given, choices)
    rest = f"use {choices[0]}" if len(choices) == 1 else f"use one of {', '.join(choices)}"
    fix = f"did you mean {near}? {rest[:1].upper()}{rest[1:]}" if near and rest else rest
    return f"{_shown(given)} is not a valid value", fix


def _bounded(kind: str, given: Any, bounds: dict[str, Any]) -> tuple[str, str] | None:
    match kind:
        case "greater_than_equal":
            return f"{_shown(given)} is too small", f"set it to {bounds['ge']:g} or more"
        case "greater_than":
            return f"{_shown(given)} is too small", f"set it above {bounds['gt']:g}"
        case "less_than_equal":
            return f"{_shown(given)} is too large", f"set it to {bounds['le']:.10g} or less"
        case "less_than":
            return f"{_shown(given)} is too large", f"set it below {bounds['lt']:.10g}"
        case "int_parsing_size":
            return f"{_shown(given)} is too large", "write a smaller number"
        case "too_short":
            least = bounds["min_length"]
            return f"has {bounds['actual_length']} items", f"list at least {least}"
        case "too_long":
            return f"has more than {bounds['max_length']} items", "remove some"
        case "string_too_short":
            return "is empty", "set a value, or leave it out"
        case "string_too_long":
            most = bounds["max_length"]
            return f"is longer than {most} characters", f"shorten it to {most} or fewer"
        case "string_pattern_mismatch" if bounds["pattern"] == SOURCE:
            return _source(given)
        case "string_pattern_mismatch" if bounds["pattern"] in (STORE, TRAJECTORIES):
            return _stored(given, bounds["pattern"] == STORE)
        case "string_pattern_mismatch" if bounds["pattern"] == RAY:
            return _ray(given)
        case "string_pattern_mismatch" if bounds["pattern"] in _FORMATS:
            reason, fix = _FORMATS[bounds["pattern"]]
            return f"{_shown(given)} {reason}", fix
        case "string_pattern_mismatch":
            return f"{_shown(given)} has the wrong format", f"it must match {bounds['pattern']}"
        case "value_error":
            return f"{_shown(given)} {bounds['error']}", "write one, such as host:8000"
    return None


def _source(given: Any) -> tuple[str, str]:
    """Reason and fix of an invalid `model.source`."""
    forms = "tiny, hf://org/name, s3://bucket/prefix, models:/name/version or file:///folder"
    if isinstance(given, str) and re.fullmatch(r"\w[\w.-]*/[\w.-]+", given):
        return f"{_shown(given)} has no scheme", f"did you mean hf://{given}? Use {forms}"
    if isinstance(given, str) and given.startswith("s3://"):
        return f"{_shown(given)} is not an address of objects", _OBJECTS
    if isinstance(given, str) and given.startswith(("/", "./", "../", "~")):
        return f"{_shown(given)} has no scheme", "write file:// and the absolute path of the folder"
    return f"{_shown(given)} is not a model source", f"use {forms}"


def _stored(given: Any, folder: bool) -> tuple[str, str]:
    """Reason and fix of an invalid address of a store, or of a file in one."""
    if isinstance(given, str) and given.startswith("s3://"):
        return f"{_shown(given)} is not an address of objects", _OBJECTS
    forms = "s3://bucket/prefix or file:///folder" if folder else "file:///file or s3://bucket/key"
    return f"{_shown(given)} is not an address of a {'store' if folder else 'file'}", f"use {forms}"


def _ray(given: Any) -> tuple[str, str]:
    """Reason and fix of an invalid `compute.ray`."""
    head = "host:port of the cluster's head (GCS), such as head:6379"
    if isinstance(given, str) and given.startswith("ray://"):
        return f"{_shown(given)} is an address of Ray Client, which is not supported", f"use {head}"
    return f"{_shown(given)} is not a Ray cluster", f"use embedded, cluster or {head}"


def _shown(given: Any) -> str:
    if given is None:
        return "null"
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, list | dict):
        return "a list" if isinstance(given, list) else "a mapping"
    if isinstance(given, str):
        given = re.sub("//[^/?#]*@", "//...@", given)  # may be a password
    text = f'"{given}"' if isinstance(given, str) else f"{given}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _model(kind: Any, location: Location) -> type[BaseModel] | None:
    """The model at `location` under the type `kind`, or None where there is none."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, UnionType):
        kind = next(one for one in get_args(kind) if one is not NoneType)
        return _model(kind, location)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        if not location:
            return kind
        named = {str(field.alias): field.annotation for field in kind.model_fields.values()}
        return _model(named.get(str(location[0])), location[1:])
    if get_origin(kind) is tuple and location:
        return _model(get_args(kind)[0], location[1:])
    return None


__all__ = ["Location", "closest", "field_names", "mistake", "path", "unknown_field"]
