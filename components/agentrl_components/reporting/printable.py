"""Texts of models, of worlds and of logs, as a person's terminal may see them."""

from __future__ import annotations

import re

_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
"""Control characters but tab and newline, halves of characters, and overrides of direction."""


def clean(text: str) -> str:
    """`text` without anything a terminal obeys or a file cannot hold."""
    return _OBEYED.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))
