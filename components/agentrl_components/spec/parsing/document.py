"""A manifest as text: YAML in, plain data out, with every slip of the pen told by its line.

The dialect is what `kubectl apply` reads, so that one manifest means the same on a laptop and on a
cluster: `1e-3` is a number, a date is a text, `off` is false.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from typing import Any

import yaml

from agentrl_components.errors import SpecError

Document = dict[str, Any]
"""A parsed manifest: objects, lists, texts, numbers, booleans and nulls."""

_FLOAT = re.compile(
    r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$"
)


class _Reader(yaml.SafeLoader):
    """PyYAML's safe loader without dates, with `1e-3`, and with an eye on repeated keys."""

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

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else "?"
            line = key.start_mark.line + 1
            if key.tag not in {"tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"}:
                self.mistakes.append(
                    f'line {line}: {name} is no text, and a field\'s name must be; write "{name}"'
                )
            elif name in lines:
                self.mistakes.append(
                    f"line {line}: {name} is given twice, first in line {lines[name]}; "
                    "remove one of them"
                )
            lines.setdefault(name, line)
        return super().construct_mapping(node, deep=deep)


_Reader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))


def value(text: str) -> Any:
    """One YAML value, as in `--set path=value`. Raises `ValueError` or `yaml.YAMLError`."""
    read, mistakes = _construct(text)
    if mistakes:
        raise ValueError("; ".join(mistakes))
    _as_json(read)
    return read


def document(text: str, name: str) -> Document:
    """The one document in `text`; `name` is what messages call it. Raises `SpecError`."""
    try:
        read, mistakes = _construct(text)
        _as_json(read)
    except yaml.MarkedYAMLError as error:
        raise SpecError([f"{name}: {_marked(error)}"]) from None
    except yaml.YAMLError as error:
        raise SpecError([f"{name}: is no YAML: {error}; remove what is not text"]) from None
    except ValueError:
        raise SpecError(
            [f"{name}: holds YAML that JSON cannot say; write plain values, lists and mappings"]
        ) from None
    if mistakes:
        raise SpecError([f"{name}: {mistake}" for mistake in mistakes])
    if not isinstance(read, dict):
        held = "nothing" if read is None else f"a {_kind(read)}"
        raise SpecError(
            [f"{name}: holds {held}; a manifest starts with apiVersion, kind, metadata and spec"]
        )
    return read


def _construct(text: str) -> tuple[Any, list[str]]:
    reader = _Reader(text)
    try:
        return reader.get_single_data(), reader.mistakes
    finally:
        reader.dispose()


def _as_json(read: Any) -> None:
    """Raises `ValueError` where `read` holds what JSON has no word for: a set, bytes, itself, half
    of a character."""
    try:
        json.dumps(read, ensure_ascii=False).encode()
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def _marked(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    problem = error.problem or error.context or "is no YAML"
    if "but found another document" in problem:
        return f"{where}a second document starts here; keep one manifest in a file"
    if "'\\t'" in problem:
        return f"{where}a tab; indent with spaces"
    return f"{where}{problem}; mend the YAML there"


def _kind(read: object) -> str:
    return {list: "list", str: "text", bool: "truth value"}.get(type(read), "number")
