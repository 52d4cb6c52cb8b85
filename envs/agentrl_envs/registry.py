"""Registry of environments: the built-in ones, and those of other packages (`extensions`).

    tasks = task_set("corridor", {"turns": 8})
    tasks = task_set("dial")                # an entry point of an installed package
    tasks = task_set("dial:DialTasks")      # a class of an installed package

An environment's module is imported only when its options or its task set are requested, so listing
names is cheap and one environment does not need the dependencies of another.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from agentrl_envs import extensions
from agentrl_envs.env import TaskSet
from agentrl_envs.errors import OptionError
from agentrl_envs.extensions import Extension
from agentrl_envs.needs import MINIWOB, PYTHON_ONLY, SCIENCE, TEXTWORLD, WEB, Needs


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltIn:
    """A registered environment."""

    summary: str
    """One line for listings."""
    module: str
    options: str
    """Class name of its options, a pydantic model whose fields all have defaults."""
    tasks: str
    """Class name of its task set, constructed from the options."""
    needs: Needs = PYTHON_ONLY
    relabels: bool = False
    """Its task set has the capability `env.Relabels`."""

    def options_model(self) -> type[BaseModel]:
        model: type[BaseModel] = getattr(importlib.import_module(self.module), self.options)
        return model

    def task_set(self, options: BaseModel) -> TaskSet:
        make: Callable[[BaseModel], TaskSet] = getattr(
            importlib.import_module(self.module), self.tasks
        )
        return make(options)


def _built_in(
    folder: str,
    prefix: str,
    summary: str,
    needs: Needs = PYTHON_ONLY,
    *,
    relabels: bool = False,
) -> BuiltIn:
    """The environment in a module of `environments`, whose classes are `<prefix>Options` and
    `<prefix>Tasks`."""
    return BuiltIn(
        summary=summary,
        module=f"agentrl_envs.environments.{folder}",
        options=f"{prefix}Options",
        tasks=f"{prefix}Tasks",
        needs=needs,
        relabels=relabels,
    )


BUILT_IN = {
    "babyai": _built_in(
        "babyai",
        "BabyAI",
        "grid rooms with doors, keys, balls and boxes; goals in words",
        relabels=True,
    ),
    "textcraft": _built_in(
        "textcraft",
        "TextCraft",
        "craft an item from Minecraft recipes, ingredient by ingredient",
        relabels=True,
    ),
    "search": _built_in(
        "search",
        "Search",
        "answer questions by searching a corpus, over several turns",
        relabels=True,
    ),
    "sciworld": _built_in(
        "sciworld", "SciWorld", "science experiments in a simulated house; needs Java", SCIENCE
    ),
    "web": _built_in(
        "web",
        "Web",
        "web navigation: WebArena's tasks, on given or on our own sites",
        WEB,
        relabels=True,
    ),
    "miniwob": _built_in(
        "miniwob", "MiniWob", "MiniWoB++: small web pages with one instruction each", MINIWOB
    ),
    "textworld": _built_in(
        "textworld_games",
        "TextWorld",
        "generated text adventures: rooms, containers, keys and food",
        TEXTWORLD,
    ),
    "wordle": _built_in("wordle", "Wordle", "guess a word of five letters in six attempts"),
    "maze": _built_in("maze", "Maze", "find the way to a goal by the walls around"),
    "gymnasium": _built_in(
        "gymnasium_text", "Gymnasium", "any Gymnasium environment with text, by its id"
    ),
    "corridor": _built_in(
        "corridor", "Corridor", "walk to a door and open it; tiny, for tests and first tries"
    ),
}


_ALL = "options:"
"""Begins a line about several options that names none first."""


def names() -> dict[str, str]:
    """The one-line summary of every built-in environment, by name."""
    return {name: built_in.summary for name, built_in in BUILT_IN.items()}


def needs(name: str) -> Needs:
    """What a built-in environment needs where it runs; for an unknown name, what most need."""
    return BUILT_IN[name].needs if name in BUILT_IN else PYTHON_ONLY


def relabels(name: str) -> bool | None:
    """Whether a built-in environment has the capability `env.Relabels`; for an unknown name,
    None."""
    return BUILT_IN[name].relabels if name in BUILT_IN else None


def options(name: str) -> dict[str, str]:
    """One line per option of an environment, by option: type, default and description. Raises
    `OptionError` for an unknown name."""
    schema = _lookup(name).options_model().model_json_schema()
    required = schema.get("required", ())
    return {
        field: f"{_type_name(one)}, {'required' if field in required else _default(one)}. "
        + " ".join(one.get("description", "").split())
        for field, one in schema.get("properties", {}).items()
    }


def _default(schema: Mapping[str, Any]) -> str:
    # A default that is made anew for each object is not in the schema.
    return f"default {json.dumps(schema['default'])}" if "default" in schema else "optional"


def _type_name(schema: Mapping[str, Any]) -> str:
    """The type of a JSON schema, in words."""
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_type_name(schema.get('items', {}))}s"
    kinds = {
        "integer": "whole number",
        "string": "text",
        "boolean": "true or false",
        "object": "mapping",
    }
    kind = str(schema.get("type", "value"))
    return kinds.get(kind, kind)


def task_set(name: str, options: Mapping[str, Any] | None = None) -> TaskSet:
    """The task set of an environment.

    Raises `OptionError` for an unknown name, an unknown option or an invalid value, and if
    something that the environment needs is not installed here."""
    built_in = _lookup(name)
    missing = [f"{name}: {what} is not installed; {fix}" for what, fix in needs(name).missing()]
    if missing:
        raise OptionError("\n".join(missing))
    model = built_in.options_model()
    try:
        return built_in.task_set(model.model_validate(dict(options or {})))
    except ValidationError as error:
        lines = (f"{name}.{below_options(line)}" for line in _error_lines(name, model, error))
        raise OptionError("\n".join(lines)) from None


def below_options(line: str) -> str:
    """A line of `option_errors` with the path of its field: `options.turns: ...`."""
    return line if line.startswith(_ALL) else f"options.{line}"


def option_errors(name: str, options: Mapping[str, Any]) -> list[str]:
    """One line per error in the options of an environment: option, reason, fix. Empty if the
    environment's packages are not installed here: they are where it runs. Raises `OptionError` if
    an installed module has no such class."""
    if name not in BUILT_IN and not is_installed(name):
        return []
    try:
        model = _lookup(name).options_model()
    except ModuleNotFoundError:
        return []
    except OptionError as error:
        if isinstance(error.__cause__, ModuleNotFoundError):  # a package that the module imports
            return []
        raise
    try:
        model.model_validate(dict(options))
    except ValidationError as error:
        return _error_lines(name, model, error)
    return []


def is_installed(name: str) -> bool:
    """Whether an environment of another package can be imported here. Imports at most the packages
    that contain its module."""
    if not extensions.is_reference(name):
        return name in extensions.installed()
    try:
        return importlib.util.find_spec(name.partition(":")[0]) is not None
    except ModuleNotFoundError:
        return False


def _lookup(name: str) -> BuiltIn | Extension:
    """A built-in environment, else one of an installed package."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    if extensions.is_reference(name):
        return Extension(reference=name)
    installed = extensions.installed()
    if name in installed:
        return installed[name]
    known = sorted((*BUILT_IN, *installed))
    near = difflib.get_close_matches(name.lower(), known, n=1)
    raise OptionError(
        f"environment: {name!r} is not built in, and no installed package has it; "
        + (
            f"did you mean {near[0]}?"
            if near
            else f"use one of {', '.join(known)}, or module:Class"
        )
    )


def _error_lines(name: str, model: type[BaseModel], error: ValidationError) -> list[str]:
    lines = []
    for each in error.errors(include_url=False):
        field = ".".join(str(part) for part in each["loc"])
        if not field:  # a rule of several options, whose message begins with one of them
            message = each["msg"].removeprefix("Value error, ")
            named = message.partition(":")[0] in model.model_fields
            lines.append(message if named else f"{_ALL} {message}")
            continue
        if each["type"] == "extra_forbidden":
            reason, fix = f"{name} has no such option", f"see `agentrl envs list {name}`"
        elif each["type"] == "missing":
            reason, fix = "is missing", "set a value"
        else:
            message = each["msg"].removeprefix("Value error, ")
            reason = (message[:1].lower() + message[1:]).replace("a valid tuple", "a list")
            fix = f"change it from {each['input']!r}"
        lines.append(f"{field}: {reason}; {fix}")
    return lines
