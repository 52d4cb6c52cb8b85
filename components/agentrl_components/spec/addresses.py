"""Types of addresses. They are parsed when a manifest is read, so that no later step can fail on
them.

The patterns are valid for pydantic (Rust regex), the API server (RE2) and Python.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, StringConstraints

_GROUP = "[0-9A-Fa-f]{1,4}"
_IPV4 = r"[0-9]{1,3}([.][0-9]{1,3}){3}"
_IPV6 = (
    rf"({_GROUP}(:{_GROUP}){{7}}|{_GROUP}(:{_GROUP}){{5}}:{_IPV4}"
    rf"|({_GROUP}(:{_GROUP}){{0,6}})?::(({_GROUP}:){{0,6}}({_GROUP}|{_IPV4}))?)"
)
"""Without a gap or with one. Whether a gap leaves too many groups is checked by `parsable`."""
_HOST = rf"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9.])?|\[{_IPV6}\])"
_PORT = (
    r"(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?"
)
_USER = r"([^@/?#\s]*@)?"
"""Credentials are refused by rules of their own, which explain where to put them."""

HTTP_URL = rf"^[hH][tT][tT][pP][sS]?://{_USER}{_HOST}{_PORT}([/?#]\S*)?$"
ENDPOINT = rf"^(https?://)?{_USER}{_HOST}{_PORT}$"
BUCKET = r"[a-z0-9][-.a-z0-9]{1,61}[a-z0-9]"
INVALID_BUCKET = r"^s3://([^/]*([.][.]|[.]-|-[.])|[0-9]+([.][0-9]+){3}(/|$))"
"""Matches s3:// addresses with a bucket that fits `BUCKET` but that S3 does not allow: adjacent
dots or dashes, and IP addresses."""


def parsable(address: str) -> str:
    """`address` itself. Raises `ValueError` if its host or port cannot be parsed."""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        valid = bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise ValueError("has no valid host and port")
    return address


HttpUrl = Annotated[
    str, StringConstraints(pattern=HTTP_URL, max_length=512), AfterValidator(parsable)
]
"""An http:// or https:// URL."""
Endpoint = Annotated[
    str, StringConstraints(pattern=ENDPOINT, max_length=512), AfterValidator(parsable)
]
"""Host and optional port of a service, with an optional http:// or https:// prefix."""
