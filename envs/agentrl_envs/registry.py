"""The environments that are built in, by name.

    tasks = task_set("corridor", {"turns": 8})

A name's module is imported when its task set is asked for, so listing names costs nothing and one
environment's dependencies are not needed for another's.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from agentrl_envs.env import TaskSet


class OptionError(ValueError):
    """An environment's name or option is wrong. One line a mistake: field, reason, fix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltIn:
    """Where an environment is."""

    line: str
    """What it is."""
    module: str
    options: str
    """Name of its options, a pydantic model whose every field has a default."""
    tasks: str
    """Name of its task set, made from the options."""

    def options_model(self) -> type[BaseModel]:
        model: type[BaseModel] = getattr(importlib.import_module(self.module), self.options)
        return model

    def task_set(self, options: BaseModel) -> TaskSet:
        make: Callable[[BaseModel], TaskSet] = getattr(
            importlib.import_module(self.module), self.tasks
        )
        return make(options)


BUILT_IN = {
    "babyai": BuiltIn(
        line="grid rooms with doors, keys, balls and boxes; goals in words",
        module="agentrl_envs.environments.babyai",
        options="BabyAIOptions",
        tasks="BabyAITasks",
    ),
    "textcraft": BuiltIn(
        line="craft an item from Minecraft recipes, ingredient by ingredient",
        module="agentrl_envs.environments.textcraft",
        options="TextCraftOptions",
        tasks="TextCraftTasks",
    ),
    "corridor": BuiltIn(
        line="walk to a door and open it; tiny, for tests and first tries",
        module="agentrl_envs.environments.corridor",
        options="CorridorOptions",
        tasks="CorridorTasks",
    ),
}


def names() -> dict[str, str]:
    """Every built-in environment and what it is, in one line each."""
    return {name: built_in.line for name, built_in in BUILT_IN.items()}


def options(name: str) -> dict[str, str]:
    """Every option of an environment: what it takes, its default and what it is for, in a line.
    Raises `OptionError`."""
    schema = _named(name).options_model().model_json_schema()
    return {
        field: f"{_taken(one)}, default {json.dumps(one['default'])}. "
        + " ".join(one.get("description", "").split())
        for field, one in schema["properties"].items()
    }


def _taken(schema: Mapping[str, Any]) -> str:
    """What a value is, in words of YAML."""
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_taken(schema.get('items', {}))}s"
    kinds = {"integer": "whole number", "string": "text", "boolean": "true or false"}
    kind = str(schema.get("type", "value"))
    return kinds.get(kind, kind)


def task_set(name: str, options: Mapping[str, Any] | None = None) -> TaskSet:
    """The task set of a built-in environment.

    Raises `OptionError` for an unknown name, an unknown option, or a value out of bounds."""
    built_in = _named(name)
    try:
        return built_in.task_set(built_in.options_model().model_validate(dict(options or {})))
    except ValidationError as error:
        wrong = (f"{name}.options.{line}" for line in _reworded(name, error))
        raise OptionError("\n".join(wrong)) from None


def option_mistakes(name: str, options: Mapping[str, Any]) -> list[str]:
    """What is wrong with the options of a built-in environment, a line each: option, reason, fix.
    Nothing where its packages are not installed: they are where it runs."""
    try:
        model = _named(name).options_model()
    except ModuleNotFoundError:
        return []
    try:
        model.model_validate(dict(options))
    except ValidationError as error:
        return _reworded(name, error)
    return []


def _named(name: str) -> BuiltIn:
    if name not in BUILT_IN:
        raise OptionError(
            f"environment: there is no {name!r}; use one of {', '.join(sorted(BUILT_IN))}"
        )
    return BUILT_IN[name]


def _reworded(name: str, error: ValidationError) -> list[str]:
    lines = []
    for mistake in error.errors(include_url=False):
        field = ".".join(str(part) for part in mistake["loc"]) or "options"
        if mistake["type"] == "extra_forbidden":
            reason, fix = f"{name} has no such option", f"see `agentrl envs list {name}`"
        else:
            said = mistake["msg"].removeprefix("Value error, ")
            reason = (said[:1].lower() + said[1:]).replace("a valid tuple", "a list")
            fix = f"change it from {mistake['input']!r}"
        lines.append(f"{field}: {reason}; {fix}")
    return lines
