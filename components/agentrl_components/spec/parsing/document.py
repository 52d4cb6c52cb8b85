"""Parser of YAML manifests. Errors name the line.

The dialect is that of `kubectl apply`, so that a manifest means the same on a laptop and on a
cluster: `1e-3` is a number, a date is a string, `off` is false.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from typing import Any

import yaml

from agentrl_components.errors import SpecError

Document = dict[str, Any]
"""A parsed manifest: mappings, lists, strings, numbers, booleans and nulls."""

MAX_DEPTH = 64
"""Maximum nesting of mappings and lists in a manifest."""
_MAX_VALUES = 100_000
"""Maximum number of values in a manifest with all aliases expanded."""
_FLOAT = re.compile(
    r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$"
)


_TOO_DEEP = f"is nested deeper than {MAX_DEPTH} levels; flatten it"


class TooLargeError(ValueError):
    """A document is nested too deeply or has too many values. The message has reason and fix."""


class _Reader(yaml.SafeLoader):
    """PyYAML's safe loader without dates, with `1e-3` as a number, and with duplicate keys reported
    in `mistakes`."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own class attribute
        first: [
            (tag, pattern)
            for tag, pattern in resolvers
            if tag not in {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:float"}
        ]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.mistakes: list[str] = []
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        # Bounded here: the composer is recursive, and how deep Python may recurse varies.
        self._depth += 1
        if self._depth > MAX_DEPTH + 1:  # a scalar may be inside the innermost list or mapping
            raise TooLargeError(_TOO_DEEP)
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else "?"
            line = key.start_mark.line + 1
            if key.tag not in {"tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"}:
                self.mistakes.append(f'line {line}: the key {name} is not a string; write "{name}"')
            elif name in lines:
                self.mistakes.append(
                    f"line {line}: {name} is a duplicate of line {lines[name]}; remove one of them"
                )
            lines.setdefault(name, line)
        return super().construct_mapping(node, deep=deep)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > _MAX_VALUES:
            raise yaml.constructor.ConstructorError(
                None, None, "a merge of too many mappings", node.start_mark
            )


_Reader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))


def value(text: str) -> Any:
    """The value of `text`, one YAML value as in `--set path=value`.

    Raises `yaml.YAMLError` if it is not YAML and `ValueError` if it has no JSON representation."""
    parsed, mistakes = _construct(text)
    if mistakes:
        raise ValueError("; ".join(mistakes))
    _check_json(parsed)
    return parsed


def document(text: str, name: str) -> Document:
    """The single YAML document in `text`, which error messages call `name`. Raises `SpecError`."""
    try:
        parsed, mistakes = _construct(text)
        _check_json(parsed)
    except yaml.MarkedYAMLError as error:
        raise SpecError([f"{name}: {_marked(error)}"]) from None
    except yaml.YAMLError as error:
        raise SpecError([f"{name}: is not valid YAML: {error}; remove what is not text"]) from None
    except TooLargeError as error:
        raise SpecError([f"{name}: {error}"]) from None
    except ValueError:
        raise SpecError(
            [f"{name}: has no JSON equivalent; use only plain values, lists and mappings"]
        ) from None
    if mistakes:
        raise SpecError([f"{name}: {mistake}" for mistake in mistakes])
    if not isinstance(parsed, dict):
        held = "nothing" if parsed is None else f"a {_kind(parsed)}"
        raise SpecError(
            [f"{name}: contains {held}; write a mapping of apiVersion, kind, metadata and spec"]
        )
    return parsed


def _construct(text: str) -> tuple[Any, list[str]]:
    """The one document of `text` that is not empty, as kubectl reads it; None: there is none."""
    reader = _Reader(text)
    found: list[yaml.Node | None] = []
    try:
        while reader.check_node():
            begins = reader.peek_event().start_mark  # type: ignore[no-untyped-call]
            node = reader.get_node()
            if isinstance(node, yaml.ScalarNode) and not node.value and not node.style:
                continue
            if found:
                raise yaml.composer.ComposerError(None, None, "but found another document", begins)
            found.append(node)
        return reader.construct_document(found[0]) if found else None, reader.mistakes
    finally:
        reader.dispose()


def check_size(parsed: Any) -> None:
    """Raise `TooLargeError` if `parsed` is nested deeper than `MAX_DEPTH` or has too many values,
    and `ValueError` if it contains itself.

    YAML aliases make the same object appear in many places, so that a few lines can expand to more
    values than fit into memory. Each object is therefore visited only once."""
    sizes: dict[int, int] = {}

    def size(value: Any, depth: int) -> int:
        if not isinstance(value, dict | list):
            return 1
        if depth > MAX_DEPTH:
            raise TooLargeError(_TOO_DEEP)
        if sizes.get(id(value)) == 0:
            raise ValueError("contains itself")
        if id(value) not in sizes:
            sizes[id(value)] = 0  # in progress
            items = value.values() if isinstance(value, dict) else value
            sizes[id(value)] = 1 + sum(size(item, depth + 1) for item in items)
        if sizes[id(value)] > _MAX_VALUES:
            raise TooLargeError(f"has more than {_MAX_VALUES} values; remove YAML aliases")
        return sizes[id(value)]

    size(parsed, 1)


def _check_json(parsed: Any) -> None:
    """Raise `ValueError` if `parsed` has no JSON representation: sets, bytes, cycles and unpaired
    surrogates have none."""
    check_size(parsed)
    try:
        json.dumps(parsed, ensure_ascii=False).encode()
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def _marked(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    problem = error.problem or error.context or "is not valid YAML"
    if "but found another document" in problem:
        return f"{where}a second document starts here; write one manifest per file"
    if "'\\t'" in problem:
        return f"{where}a tab character; indent with spaces"
    return f"{where}{problem}; correct the YAML there"


def _kind(read: object) -> str:
    return {list: "list", str: "string", bool: "boolean"}.get(type(read), "number")
