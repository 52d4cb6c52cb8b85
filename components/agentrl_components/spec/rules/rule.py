"""A validation rule that involves several fields, and the mistake it reports.

A rule is a generator function over a validated `RunSpec`. Its docstring is the error message of the
API server. Rules that CEL can express also carry a CEL expression, in which `self` is the
manifest's `spec`; both forms must give the same verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agentrl_components.spec.fields.run import RunSpec

Check = Callable[[RunSpec], Iterator["Mistake"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One mistake in a manifest."""

    field: str
    """Path in the manifest: `spec.horizon.phases[1].maxTurns`."""
    reason: str
    """What is wrong."""
    fix: str
    """How to correct it."""

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}; {self.fix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A constraint on the values of several fields."""

    reads: tuple[str, ...]
    """Paths under `spec` that the rule reads; `*` stands for every item of a list. If one of these
    fields is invalid by itself, the rule is not checked, since it could only repeat or contradict
    the first mistake."""
    message: str
    """The rule in one sentence."""
    check: Check
    """Yields a mistake for every violation of the rule."""
    cel: str | None
    """The rule in CEL, or None if CEL cannot express it."""


def rule(*reads: str, cel: str | None = None) -> Callable[[Check], Rule]:
    """A decorator that turns a generator function into a `Rule`; the docstring is the message."""

    def decorate(check: Check) -> Rule:
        message = " ".join((check.__doc__ or "").split()).rstrip(".")
        return Rule(reads=reads, message=message, check=check, cel=cel)

    return decorate


def differences(value: object, default: object, names: tuple[str, ...]) -> list[str]:
    """The attributes among `names` that differ between `value` and `default`."""
    return [name for name in names if getattr(value, name) != getattr(default, name)]
