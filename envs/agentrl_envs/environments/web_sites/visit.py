"""A request to a site and its response, without HTTP: what the pages are functions of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agentrl_envs.environments.web_sites.state import State

LONGEST_TEXT = 500
"""Characters of a form field that are kept."""
MOST_FOUND = 12
"""Results on the page of a search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request of one session."""

    state: State
    """The session's own copy if the request is a POST, which may change it; else read-only."""
    path: Mapping[str, str]
    """Parameters of the route."""
    query: Mapping[str, str]
    form: Mapping[str, str]
    """Fields of a POST, stripped and cut to `LONGEST_TEXT`."""
    user: str
    """The account that is signed in to this site. Empty: nobody."""


@dataclass(frozen=True, slots=True)
class Page:
    """An HTML page: a template and its values."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True, slots=True)
class Redirect:
    """Go on at `path`, relative to the site's base URL."""

    path: str


Handler = Callable[[Visit], Page | Redirect]


@dataclass(frozen=True, slots=True)
class Route:
    """A path of a site, such as `/product/{slug}`, and who may request it."""

    method: Literal["GET", "POST"]
    path: str
    handler: Handler
    login: bool = False
    """Whether an account must be signed in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One site: its routes and what the header of its pages shows."""

    name: str
    """One of `accounts.SITES`."""
    title: str
    links: Mapping[str, str]
    """Path by text, of the main navigation."""
    routes: tuple[Route, ...]
    search: str = ""
    """Label of the search field. Empty: no search."""


def missing(what: str) -> Page:
    """The page for a path that names nothing."""
    return Page("missing.html", {"what": what}, 404)


def refused(reason: str) -> Page:
    """The page for a form that was not filled in correctly."""
    return Page("refused.html", {"reason": reason}, 400)


def whole_number(text: str, low: int, high: int) -> int | None:
    """The number in a form field or a path; None if there is none from `low` to `high`."""
    if text.isascii() and text.isdigit() and len(text) <= 9 and low <= int(text) <= high:
        return int(text)
    return None


def search_results(
    visit: Visit, template: str, name: str, entries: Iterable[tuple[str, object]]
) -> Page:
    """The page of a search: under `name`, the first of `entries`, each with its title, whose title
    contains every word of the query. An empty query finds nothing."""
    query = visit.query.get("q", "").strip()
    words = query.lower().split()
    shown = [each for title, each in entries if words and _has_all(title, words)]
    return Page(template, {"query": query, name: shown[:MOST_FOUND]})


def _has_all(title: str, words: Sequence[str]) -> bool:
    return all(word in title.lower().split() for word in words)
