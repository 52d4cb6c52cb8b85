"""Proxies of the environment, for clients of environment servers."""

from __future__ import annotations

import ipaddress

import httpx


def is_address(url: str) -> bool:
    """Whether the host of a URL is an IP address. No proxy is used for one: servers behind a
    Service are called by theirs, and clients of Python ignore ranges of addresses in NO_PROXY."""
    try:
        ipaddress.ip_address(httpx.URL(url).host)
    except (ValueError, httpx.InvalidURL):
        return False
    return True


def mounts(url: str) -> dict[str, None]:
    """The `mounts` of a client of httpx for a server at `url`: without a proxy if the host is an IP
    address."""
    if not is_address(url):
        return {}
    host = httpx.URL(url).host
    return {f"all://[{host}]" if ":" in host else f"all://{host}": None}
