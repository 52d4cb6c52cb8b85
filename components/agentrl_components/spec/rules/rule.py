"""A rule that more than one field decides, and the mistake it finds.

Each rule is a generator over a validated `RunSpec`; its docstring is what the API server says when
the rule is broken. Where CEL can say the rule, its expression stands beside the Python, so that the
two are read and changed together; in the expression `self` is the manifest's `spec`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agentrl_components.spec.fields.run import RunSpec

Check = Callable[[RunSpec], Iterator["Mistake"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One thing that is wrong with a manifest."""

    field: str
    """Path in the manifest, as it is written there: `spec.horizon.phases[1].maxTurns`."""
    reason: str
    """What is wrong."""
    fix: str
    """What to do about it."""

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}; {self.fix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A relation between fields."""

    reads: tuple[str, ...]
    """Paths under `spec` that the rule looks at; `*` is every item of a list. While one of them is
    itself wrong, the rule is not asked: it would only repeat or contradict the first mistake."""
    says: str
    """The rule in one sentence."""
    check: Check
    """Yields a mistake for every place where the rule is broken."""
    cel: str | None
    """The rule in CEL, or None where CEL cannot say it."""


def rule(*reads: str, cel: str | None = None) -> Callable[[Check], Rule]:
    """Make a rule of a generator function; its docstring is the sentence."""

    def made(check: Check) -> Rule:
        says = " ".join((check.__doc__ or "").split()).rstrip(".")
        return Rule(reads=reads, says=says, check=check, cel=cel)

    return made


def changed(part: object, default: object, names: tuple[str, ...]) -> list[str]:
    """Those of `names` whose value in `part` is not the one in `default`."""
    return [name for name in names if getattr(part, name) != getattr(default, name)]
