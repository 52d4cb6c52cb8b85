"""Texts that are printed in a terminal or written to a log.

Texts of models, environments and servers may hold control characters, such as the escape sequences
with which a terminal changes its title or the clipboard. They are replaced by U+FFFD before the
text is shown.
"""

from __future__ import annotations

import logging
import re

import click

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
"""Control characters except tab and newline, lone surrogates and bidirectional overrides."""


def clean(text: str) -> str:
    """`text` with control characters replaced by U+FFFD, and CRLF by LF."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def echo(text: object, *, err: bool = False, nl: bool = True, prefix: str = "") -> None:
    """Print `prefix` and the cleaned `text`, to stderr with `err`, and a newline with `nl`.

    `prefix` may hold the colours of a terminal: it must be our own text."""
    click.echo(prefix + clean(str(text)), err=err, nl=nl)  # noqa: TID251


class CleanFormatter(logging.Formatter):
    """A formatter whose lines hold no control characters, whatever was logged."""

    def format(self, record: logging.LogRecord) -> str:
        return clean(super().format(record))


def log_to_stderr(line: str) -> None:
    """Write log records to stderr in the format `line`, unless logging is configured already."""
    handler = logging.StreamHandler()
    handler.setFormatter(CleanFormatter(line))
    logging.basicConfig(handlers=[handler])
