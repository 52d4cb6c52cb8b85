"""`--set field=value`: overrides one value of a manifest before validation."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from typing import Any

import yaml

from agentrl_components.spec.parsing.document import Document, value
from agentrl_components.spec.parsing.wording import Location, closest, field_names, path
from agentrl_components.spec.rules.rule import Mistake

_ROOTS = {"apiVersion", "kind", "metadata", "spec"}
_NULLS = {"null", "Null", "NULL", "~"}


def apply(manifest: Document, overrides: Iterable[str]) -> list[str]:
    """Apply `overrides` to the manifest, in order and in place. Returns their mistakes; an override
    with a mistake is not applied."""
    mistakes: list[str] = []
    for override in overrides:
        trial = copy.deepcopy(manifest)
        mistake = _apply_one(trial, override)
        if mistake is None:
            manifest.update(trial)
        else:
            mistakes.append(f"--set {mistake}")
    return mistakes


def _apply_one(manifest: Document, override: str) -> Mistake | None:
    name, equals, text = override.partition("=")
    if not equals:
        return Mistake(field=override, reason="has no value", fix="write field=value")
    location = _location(name)
    if not location:
        return Mistake(field=override, reason="names no field", fix="write field=value")
    try:
        given = value(text)
    except (ValueError, yaml.YAMLError):
        return Mistake(
            field=name, reason=f"{text} is not a YAML value", fix="write one value, in quotes"
        )
    if given is None and text.strip() not in _NULLS:  # such as an empty variable of a shell
        return Mistake(
            field=name,
            reason="has an empty value",
            fix='write null for the default, or "" for empty text',
        )
    return _assign(manifest, location, given)


def _location(name: str) -> Location:
    """`horizon.phases[0].maxTurns` as ('spec', 'horizon', 'phases', 0, 'maxTurns')."""
    parts = [part for part in re.split(r"[.\[\]]", name.strip()) if part]
    if parts and parts[0] not in _ROOTS:
        parts.insert(0, "spec")
    return tuple(int(part) if part.isdecimal() else part for part in parts)


def _assign(manifest: Document, location: Location, given: Any) -> Mistake | None:
    """Assign `given` to `location`. Missing mappings on the way are created."""
    holder: Any = manifest
    for depth, part in enumerate(location):
        mistake = _lookup_mistake(holder, location[:depth], part)
        if mistake is not None:
            return mistake
        if depth == len(location) - 1:
            holder[part] = given
        else:
            if isinstance(holder, dict) and holder.get(str(part)) is None:
                holder[part] = [] if isinstance(location[depth + 1], int) else {}
            holder = holder[part]
    return None


def _lookup_mistake(holder: Any, where: Location, part: int | str) -> Mistake | None:
    """Why `part` cannot be assigned in `holder`, the value at `where`, or None if it can."""
    field = path((*where, part))
    if isinstance(holder, list):
        if isinstance(part, int) and part < len(holder):
            return None
        last = len(holder) - 1
        fix = f"use an index from 0 to {last}" if last > 0 else "use index 0"
        held = f"{len(holder)} item{'' if last == 0 else 's'}"
        return Mistake(
            field=field,
            reason=f"{path(where)} is a list of {held}",
            fix=fix if holder else "set the whole list",
        )
    if not isinstance(holder, dict):
        return Mistake(
            field=field, reason=f"{path(where)} is a single value", fix=f"set {path(where)} itself"
        )
    known = field_names(where)
    if known and part not in known:
        near = closest(str(part), known)
        fix = f"did you mean {near}?" if near else f"the fields are {', '.join(known)}"
        return Mistake(field=field, reason="unknown field", fix=fix)
    return None
