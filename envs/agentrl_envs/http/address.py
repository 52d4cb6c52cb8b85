"""Addresses of a host and a port, as in URLs: those of IPv6 are in brackets."""

from __future__ import annotations

from urllib.parse import urlsplit


def address_of(host: str, port: int) -> str:
    """The address of a host and a port."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_and_port(address: str) -> tuple[str, int]:
    """The parts of an address, the host without brackets. Without a port: 0."""
    parts = urlsplit(f"//{address}")
    return parts.hostname or "", parts.port or 0
