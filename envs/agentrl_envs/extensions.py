"""Environments of other packages: classes found by entry point or by `module:Class`.

A package names its task sets in its metadata:

    [project.entry-points."agentrl.environments"]
    dial = "dial:DialTasks"

The options of such an environment are the parameters of the class's constructor, or the fields of
one pydantic model if that is its only parameter. Nothing is downloaded: a reference names code that
is installed here, and it is imported only when the environment is used.
"""

from __future__ import annotations

import importlib
import inspect
import re
import typing
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model
from pydantic.errors import PydanticSchemaGenerationError

from agentrl_envs.calls.code_errors import code_errors
from agentrl_envs.env import TaskSet
from agentrl_envs.errors import OptionError

GROUP = "agentrl.environments"
"""The group of entry points that name task sets."""

REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
"""`module:Class`."""

MEMBERS = ("name", "instructions", "size", "task", "environment", "vocabulary")
"""What a `TaskSet` has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """The task set of another package."""

    reference: str
    """`module:Class`."""
    package: str | None = None
    """The package that names it in an entry point."""

    @property
    def summary(self) -> str:
        """One line for listings."""
        return self.reference if self.package is None else f"{self.reference} of {self.package}"

    def options_model(self) -> type[BaseModel]:
        """Its options. Raises `OptionError` if the class cannot be imported, or a parameter of its
        constructor has no type that pydantic knows."""
        cls = self._load()
        try:
            parameters = _parameters(cls)
        except (AttributeError, NameError, SyntaxError, TypeError) as error:
            raise OptionError(
                f"{self.reference}: the type of a parameter of its constructor cannot be read "
                f"({error}); import it outside of `if TYPE_CHECKING`, or use str, int, float, bool "
                "or lists of them"
            ) from None
        if (given := _model_parameter(parameters)) is not None:
            return given
        fields: dict[str, Any] = {
            name: (kind, ... if parameter.default is parameter.empty else parameter.default)
            for name, (parameter, kind) in parameters.items()
        }
        try:
            return create_model(
                f"{cls.__name__}Options",
                __config__=ConfigDict(extra="forbid", frozen=True),
                __doc__=cls.__doc__,
                **fields,
            )
        except (PydanticSchemaGenerationError, NameError) as error:
            raise OptionError(
                f"{self.reference}: a parameter of its constructor is not an option "
                f"({str(error).splitlines()[0]}); use str, int, float, bool or lists of them"
            ) from None

    def task_set(self, options: BaseModel) -> TaskSet:
        """A task set with these options. Raises `OptionError` if the constructor refuses them with
        a `ValueError`, or makes something that is no task set, and `CodeError` if it raises any
        other error."""
        cls = self._load()
        with code_errors(self.reference):
            tasks = self._constructed(cls, options)
        if not isinstance(tasks, TaskSet):
            missing = ", ".join(name for name in MEMBERS if not hasattr(tasks, name))
            raise OptionError(
                f"{self.reference}: is no task set, it lacks {missing}; see agentrl_envs.env"
            )
        return tasks

    def _constructed(self, cls: type[Any], options: BaseModel) -> Any:
        try:
            if _model_parameter(_parameters(cls)) is None:
                return cls(**{name: getattr(options, name) for name in type(options).model_fields})
            return cls(options)
        except ValueError as error:
            raise OptionError(f"{self.reference}: {error}") from error

    def _load(self) -> type[Any]:
        """Its class. Raises `OptionError` if it cannot be imported, and `CodeError` if its module
        raises another error."""
        module, _, name = self.reference.partition(":")
        with code_errors(self.reference):
            try:
                found = getattr(importlib.import_module(module), name, None)
            except ImportError as error:
                raise OptionError(
                    f"{self.reference}: cannot be imported ({error}); install its package with pip "
                    "where the environment runs"
                ) from error
        if not isinstance(found, type):
            raise OptionError(f"{self.reference}: {module} has no class {name}; check the name")
        return found


def is_reference(name: str) -> bool:
    """Whether a name has the form `module:Class`."""
    return REFERENCE.fullmatch(name) is not None


def installed() -> dict[str, Extension]:
    """The environments that installed packages name in entry points, by name. Imports none of them.

    Raises `OptionError` if two packages use one name."""
    found: dict[str, Extension] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        extension = Extension(reference=_reference(point), package=_package(point))
        other = found.setdefault(point.name, extension)
        if other != extension:
            raise OptionError(
                f"environment: {other.package} and {extension.package} both name one "
                f"{point.name!r}; uninstall one, or use {other.reference} or {extension.reference}"
            )
    return found


def _reference(point: EntryPoint) -> str:
    return point.value.split("[")[0].replace(" ", "")


def _package(point: EntryPoint) -> str:
    return "an unnamed package" if point.dist is None else point.dist.name


Parameters = dict[str, tuple[inspect.Parameter, Any]]
"""Parameters of a constructor and their types, by name."""


def _parameters(cls: type[Any]) -> Parameters:
    """The parameters of the constructor of `cls`. Raises the error of a type that is not there."""
    given = inspect.signature(cls).parameters
    hints = typing.get_type_hints(cls.__init__)
    return {
        name: (parameter, hints.get(name, Any))
        for name, parameter in given.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }


def _model_parameter(parameters: Parameters) -> type[BaseModel] | None:
    """The pydantic model that is the only parameter of a constructor; None: it has another form."""
    kinds = [kind for _, kind in parameters.values()]
    if len(kinds) != 1:
        return None
    for kind in (kinds[0], *typing.get_args(kinds[0])):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None
