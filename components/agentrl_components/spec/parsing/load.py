"""Loads and validates manifests, and reports all mistakes at once.

    run = load(Path("examples/babyai.yaml"), overrides=("seed=3",))

`SpecError.mistakes` has one line per mistake: field, reason, fix. Rules between fields are checked
even if other fields are invalid, unless a rule reads an invalid field.
"""

from __future__ import annotations

import copy
import functools
import json
import operator
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from agentrl_components.errors import SpecError
from agentrl_components.spec.fields.run import OTHER_METADATA, AgentRLRun, RunSpec
from agentrl_components.spec.parsing.document import (
    Document,
    TooLargeError,
    check_size,
    document,
)
from agentrl_components.spec.parsing.normalise import normalised
from agentrl_components.spec.parsing.override import apply
from agentrl_components.spec.parsing.wording import field_names, unknown_field
from agentrl_components.spec.parsing.wording import mistake as mistake_of
from agentrl_components.spec.rules.validation import mistakes
from agentrl_envs.errors import OptionError
from agentrl_envs.protocols.options import option_errors as protocol_errors
from agentrl_envs.registry import BUILT_IN, below_options, option_errors

Checked = TypeVar("Checked", AgentRLRun, RunSpec)

PLACEHOLDERS: Document = {
    "environments": [{"name": "placeholder"}],
    "name": "placeholder",
    "secret": "placeholder",
    "value": "",
    "key": "placeholder",
    "claim": "placeholder",
    "path": "/placeholder",
    "horizon": {},
    "phases": [{}],
    "maxTurns": 1,
    "iterations": 1,
    "algorithm": "hindsight",
}
"""A value for every required field under `spec`, by field name, so that rules about other fields
can be checked without it."""


def load(path: Path | str, overrides: Sequence[str] = ()) -> AgentRLRun:
    """The run in the YAML file at `path`, with the `field=value` overrides applied.

    The field of an override is a path from the root or from `spec`: `seed=3`, `spec.seed=3`,
    `horizon.phases[0].maxTurns=2`, `horizon.phases.0.maxTurns=2`. Its value is YAML.

    Raises `SpecError` with all mistakes in the file, the overrides, the fields and the rules."""
    read = document(read_text(Path(path)), str(path))
    found = apply(read, overrides) + _metadata_errors(read)
    try:
        run = parse(read)
    except SpecError as error:
        raise SpecError(found + error.mistakes) from None
    found += option_mistakes(run)
    if found:
        raise SpecError(found)
    return run


def _metadata_errors(read: Document) -> list[str]:
    """The fields of a file's metadata that no object has. `parse` ignores them, because later
    versions of Kubernetes may add fields to its objects."""
    metadata = read.get("metadata")
    known = {*field_names(("metadata",)), *OTHER_METADATA}
    unknown = [one for one in metadata if one not in known] if isinstance(metadata, dict) else []
    return [str(unknown_field(("metadata", one))) for one in unknown]


def option_mistakes(run: AgentRLRun, *, own_only: bool = False) -> list[str]:
    """The mistakes that environments and protocols find in their options, and names of classes in
    other packages that are not environments. `own_only`: import no other package; the options of
    its environments are not checked."""
    found = []
    for index, environment in enumerate(run.spec.environments):
        where = f"spec.environments[{index}]"
        lines = []
        if own_only and environment.builtin is not None and environment.builtin not in BUILT_IN:
            continue
        try:
            if environment.builtin is not None:
                lines = option_errors(environment.builtin, environment.options)
            elif environment.protocol != "agentrl":
                lines = protocol_errors(environment.protocol, environment.options)
        except OptionError as error:
            found += [f"{where}.builtin: {line}" for line in str(error).splitlines()]
        found += [f"{where}.{below_options(line)}" for line in lines]
    return found


def parse(read: Mapping[str, Any]) -> AgentRLRun:
    """The run in a parsed document, such as an object from the Kubernetes API. `status` is ignored.

    Raises `SpecError` with all mistakes."""
    manifest = {name: value for name, value in read.items() if name != "status"}
    try:
        check_size(manifest)
    except TooLargeError as error:
        raise SpecError([f"manifest: {error}"]) from None
    manifest = normalised(AgentRLRun, manifest)
    try:
        run = _validate(AgentRLRun, manifest)
    except ValidationError as error:
        errors = _relevant_errors(error)
        lines = [str(mistake_of(one)) for one in errors]
        raise SpecError(lines + _rule_mistakes(manifest.get("spec"), errors)) from None
    broken = [str(mistake) for mistake in mistakes(run.spec)]
    if broken:
        raise SpecError(broken)
    return run


def dump(run: AgentRLRun) -> str:
    """The manifest as YAML, with the fields that were set explicitly."""
    return yaml.safe_dump(
        run.model_dump(mode="json", by_alias=True, exclude_unset=True),
        sort_keys=False,
        allow_unicode=True,
    )


def flatten(run: AgentRLRun) -> dict[str, str]:
    """All values of `spec`, including defaults, by path: `horizon.phases.0.maxTurns` -> `"3"`.

    Strings are unchanged, other values are JSON. Empty lists and mappings are left out."""
    flat: dict[str, str] = {}
    _flatten(run.spec.model_dump(mode="json", by_alias=True), "", flat)
    return flat


def _flatten(value: Any, path: str, flat: dict[str, str]) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            _flatten(inner, f"{path}.{name}" if path else name, flat)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _flatten(inner, f"{path}.{index}", flat)
    else:
        flat[path] = value if isinstance(value, str) else json.dumps(value)


def read_text(path: Path) -> str:
    """The text of a manifest's file. Raises `SpecError` if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SpecError([f"{path}: file not found; check the path"]) from None
    except IsADirectoryError:
        raise SpecError([f"{path}: is a folder; give the path of the manifest in it"]) from None
    except UnicodeDecodeError:
        raise SpecError([f"{path}: is not UTF-8 text; give the path of a YAML file"]) from None
    except OSError as error:
        raise SpecError([f"{path}: cannot be read: {error.strerror}; check the path"]) from None


def _validate(kind: type[Checked], read: Any) -> Checked:
    """Validate `read` by way of JSON, because pydantic's strict mode accepts lists for tuples and
    strings for URLs only there."""
    return kind.model_validate_json(json.dumps(read), strict=True, by_alias=True, by_name=False)


def _relevant_errors(error: ValidationError) -> list[ErrorDetails]:
    """The errors to report: not those of a list that is too short only because its items are
    invalid."""
    return [
        one
        for one in error.errors(include_url=False)
        if not (one["type"] == "too_short" and one["input"])
    ]


def _rule_mistakes(spec: Any, errors: Iterable[ErrorDetails]) -> list[str]:
    """The rule violations in `spec` without its invalid fields."""
    if not isinstance(spec, dict):
        return []
    invalid = {".".join(map(str, one["loc"][1:])) for one in errors if _is_field_error(one)}
    valid = _without_invalid(spec, invalid)
    return [str(mistake) for mistake in mistakes(valid, invalid)]


def _is_field_error(error: ErrorDetails) -> bool:
    """Whether the error is in a field that rules may read. No rule reads unknown fields."""
    return error["loc"][0] == "spec" and error["type"] != "extra_forbidden"


def _without_invalid(spec: Document, invalid: set[str]) -> RunSpec:
    """`spec` without its invalid fields and with placeholders for required ones.

    Adds to `invalid` those errors that only show up after others are removed. Terminates, because
    every round removes invalid values or adds valid ones."""
    rest = copy.deepcopy(spec)
    while True:
        try:
            return _validate(RunSpec, rest)
        except ValidationError as error:
            errors = _relevant_errors(error)
        for one in reversed(errors):  # in reverse, so that the indices of list items stay valid
            *around, name = one["loc"]
            holder = functools.reduce(operator.getitem, around, rest)
            if one["type"] == "missing":
                holder[name] = copy.deepcopy(PLACEHOLDERS[str(name)])
            else:
                del holder[name]
            if one["type"] != "extra_forbidden":
                invalid.add(".".join(map(str, one["loc"])))
