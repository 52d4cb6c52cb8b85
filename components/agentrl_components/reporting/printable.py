"""Printable texts.

Texts of models and environments may hold control characters, such as the escape sequences of a
terminal. They are replaced by U+FFFD before the text is shown.
"""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
"""Control characters except tab and newline, lone surrogates and bidirectional overrides."""


def clean(text: str) -> str:
    """`text` with control characters replaced by U+FFFD, and CRLF by LF."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))
