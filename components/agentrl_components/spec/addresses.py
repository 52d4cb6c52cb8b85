"""Types of addresses. They are parsed when a manifest is read, so that no later step can fail on
them.

The patterns are valid for pydantic (Rust regex), the API server (RE2) and Python.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple
from urllib.parse import unquote, urlsplit

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
_KEY = r"[^?#\x00-\x1f\x7f]"
"""A character of a key. `?` and `#` are none, which parsers of URLs take for the end of a path."""
S3_FOLDER = rf"s3://{BUCKET}(/{_KEY}*)?"
"""A bucket, and a prefix of keys or none."""
S3_OBJECT = rf"s3://{BUCKET}/{_KEY}+"
"""A bucket, and a key or a prefix of keys."""
INVALID_BUCKET = r"^s3://([^/]*([.][.]|[.]-|-[.])|[0-9]+([.][0-9]+){3}(/|$))"
"""Matches s3:// addresses with a bucket that fits `BUCKET` but that S3 does not allow: adjacent
dots or dashes, and IP addresses."""
RELATIVE_PART = r"^s3://.*/[.][.]?(/|$)"
"""Matches s3:// addresses with a part `.` or `..` of the key, which HTTP clients resolve."""


class S3Location(NamedTuple):
    """What an s3:// address names."""

    bucket: str
    prefix: str
    """Key or prefix of keys, without slashes at its ends; may be empty."""


def s3_location(address: str) -> S3Location:
    """The bucket and the prefix of an s3:// address. No character of it is decoded or left out: a
    run's prefix is appended to the address as text, so the prefix ends with it. `urlsplit` would
    drop what follows `?` or `#`. Raises `ValueError` for another scheme."""
    scheme, found, rest = address.partition("://")
    if not found or scheme != "s3":
        raise ValueError(f"{address} is not an s3:// address")
    bucket, _, prefix = rest.partition("/")
    return S3Location(bucket, prefix.strip("/"))


def file_path(address: str) -> Path:
    """The path in a `file:///` address, with `%20` and the like decoded. `?` and `#` are characters
    of the path, as in a path that is written without an address."""
    return Path(unquote(address.removeprefix("file://")))


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
