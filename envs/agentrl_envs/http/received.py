"""Values of environments and servers: how they are read and shown, whatever they are."""

from __future__ import annotations

import json
from typing import Any

MAX_TEXT_CHARS = 200
"""Characters of a received value that a message shows."""


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text. Raises `ValueError` if it is no JSON, or nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def short(value: object) -> str:
    """`repr` of a received value, cut to `MAX_TEXT_CHARS`."""
    try:
        shown = repr(value)
    except RecursionError:
        shown = "a deeply nested value"
    return shown if len(shown) <= MAX_TEXT_CHARS else f"{shown[:MAX_TEXT_CHARS]}…"
