"""How a check ended."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Literal

import click

RAISED = re.compile(r"^(?:\[rank\d+\]: )?([\w.]+(?:Error|Exception)\b.*)", re.MULTILINE)
"""The line of a traceback that names the exception. torch writes the number of the rank before it,
and warnings after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a check ended."""

    name: str
    status: Literal["ok", "failed", "skipped", "unfinished"]
    reason: str = ""
    figures: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


def outcome_of(name: str, code: int, output: str, errors: str) -> Outcome:
    """How a check ended, from what its process printed."""
    answers = [line for line in output.splitlines() if line.startswith("{")]
    answer = json.loads(answers[-1]) if code == 0 and answers else {}
    if "figures" in answer:
        return Outcome(name=name, status="ok", figures=answer["figures"])
    if "skipped" in answer:
        return Outcome(name=name, status="skipped", reason=answer["skipped"])
    click.echo(errors, err=True)
    printed = [line for line in errors.splitlines() if line.strip()]
    reasons = RAISED.findall(errors) or printed or [f"ended with code {code}"]
    return Outcome(name=name, status="failed", reason=reasons[-1])
