"""`--set field=value`: one value laid over a manifest before it is validated."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from typing import Any

import yaml

from agentrl_components.spec.parsing.document import Document, value
from agentrl_components.spec.parsing.wording import Location, fields, nearest, path
from agentrl_components.spec.rules import Mistake

_ROOTS = {"apiVersion", "kind", "metadata", "spec"}


def apply(read: Document, overrides: Iterable[str]) -> list[str]:
    """Lay `overrides` over the document, in order and in place. Returns the mistakes in them; an
    override with a mistake changes nothing."""
    wrong: list[str] = []
    for override in overrides:
        trial = copy.deepcopy(read)
        mistake = _apply_one(trial, override)
        if mistake is None:
            read.update(trial)
        else:
            wrong.append(f"--set {mistake}")
    return wrong


def _apply_one(read: Document, override: str) -> Mistake | None:
    name, equals, text = override.partition("=")
    if not equals or not name.strip():
        return Mistake(field=override, reason="says no value", fix="write field=value")
    try:
        given = value(text)
    except (ValueError, yaml.YAMLError):
        return Mistake(
            field=name, reason=f"{text} is no plain YAML", fix="write one value, in quotes"
        )
    return _put(read, _location(name), given)


def _location(name: str) -> Location:
    """`horizon.phases[0].maxTurns` as ('spec', 'horizon', 'phases', 0, 'maxTurns')."""
    parts = [part for part in re.split(r"[.\[\]]", name.strip()) if part]
    if parts and parts[0] not in _ROOTS:
        parts.insert(0, "spec")
    return tuple(int(part) if part.isdecimal() else part for part in parts)


def _put(read: Document, location: Location, given: Any) -> Mistake | None:
    """Write `given` at `location`; mappings that are not there yet are made."""
    holder: Any = read
    for depth, part in enumerate(location):
        mistake = _misses(holder, location[:depth], part)
        if mistake is not None:
            return mistake
        if depth == len(location) - 1:
            holder[part] = given
        else:
            if isinstance(holder, dict) and holder.get(str(part)) is None:
                holder[part] = [] if isinstance(location[depth + 1], int) else {}
            holder = holder[part]
    return None


def _misses(holder: Any, where: Location, part: int | str) -> Mistake | None:
    """Why `part` cannot be reached in `holder`, which stands at `where`, or None."""
    field = path((*where, part))
    if isinstance(holder, list):
        if isinstance(part, int) and part < len(holder):
            return None
        fix = f"count from 0 to {len(holder) - 1}" if holder else "set the whole list"
        return Mistake(
            field=field, reason=f"{path(where)} is a list of {len(holder)} items", fix=fix
        )
    if not isinstance(holder, dict):
        return Mistake(
            field=field, reason=f"{path(where)} is a single value", fix=f"set {path(where)} itself"
        )
    known = fields(where)
    if known and part not in known:
        near = nearest(str(part), known)
        fix = f"did you mean {near}?" if near else f"known are {', '.join(known)}"
        return Mistake(field=field, reason="there is no such field", fix=fix)
    return None
