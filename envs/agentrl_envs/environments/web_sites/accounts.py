"""The sites by WebArena's names, and the account of each site that has a login."""

from __future__ import annotations

from dataclasses import dataclass

SITES = ("shopping", "shopping_admin", "reddit", "gitlab", "map", "wikipedia")
"""WebArena's names, which its tasks use. Here they are a shop, its administration, a forum, a code
host, a map and a wiki."""


@dataclass(frozen=True, slots=True)
class Account:
    """Credentials of a demonstration site. They protect nothing."""

    username: str
    password: str


ACCOUNTS = {
    "shopping": Account("nora berg", "shop-password"),
    "shopping_admin": Account("admin", "admin-password"),
    "reddit": Account("owen hart", "forum-password"),
    "gitlab": Account("petra lind", "code-password"),
}
"""The account with which tasks of a site are done. The map and the wiki have no login."""


def placeholder(site: str) -> str:
    """What stands for the base URL of a site in WebArena's tasks."""
    return f"__{site.upper()}__"
