"""The content that a browser context sees, where the sites serve several.

A start page selects it: `/shopping/content/3/category/toys` sets a cookie and leads to
`/shopping/category/toys`, whose address is the same in every content. A context without the cookie
sees the first content."""

from __future__ import annotations

import re

from agentrl_envs.environments.web_sites.visit import whole_number

COOKIE = "site_content"

_SELECTED = re.compile(r"[^/]*/content/(\d{1,9})/")


def selecting(content: int, start: str) -> str:
    """The address that selects a content and leads to `start`, a task's start page
    (`__SHOPPING__/cart`)."""
    site, _, path = start.partition("/")
    return f"{site}/content/{content}/{path}"


def selected(start: str) -> int | None:
    """The content that a task's start page selects. None: it selects none."""
    found = _SELECTED.match(start)
    return int(found[1]) if found else None


def content_of(cookie: str | None, contents: range) -> int:
    """The content of a context with this cookie."""
    chosen = whole_number(cookie or "", contents[0], contents[-1])
    return contents[0] if chosen is None else chosen
