"""A generated task in WebArena's JSON form (arXiv 2307.13854), with the moves that solve it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agentrl_envs.environments.web_sites.accounts import ACCOUNTS, placeholder


@dataclass(frozen=True, slots=True)
class Click:
    """Click the link, the button or the radio button with this name. Of several links, the last:
    the first ones are the navigation."""

    name: str


@dataclass(frozen=True, slots=True)
class Fill:
    """Replace the text of the field with this label."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Goto:
    """Open the base URL of another site."""

    url: str


@dataclass(frozen=True, slots=True)
class Answer:
    """End with an answer, empty where none is asked for."""

    text: str


Move = Click | Fill | Goto | Answer

Expected = tuple[str, str, Literal["exact_match", "must_include"], str]
"""URL, CSS selector of one element, how its text is compared, and with what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteTask:
    """One task."""

    config: Mapping[str, Any]
    """WebArena's JSON object, complete but for `task_id`."""
    category: str
    """The site, or `mixed`."""
    template: str
    """Name of the template that made it."""
    moves: tuple[Move, ...]
    """A shortest solution as a person finds it; the last is an `Answer`."""

    @property
    def clicks(self) -> int:
        """Moves besides the answer: the difficulty."""
        return len(self.moves) - 1


def site_task(
    template: str,
    sites: Sequence[str],
    start: str,
    intent: str,
    values: Mapping[str, str],
    moves: Sequence[Move],
    *,
    answer: str | None = None,
    url: str | None = None,
    program: Sequence[Expected] = (),
) -> SiteTask:
    """A task on `sites` that starts at the URL `start`.

    `intent` has the names of `values` in double braces. The task is solved when every given
    condition holds: the agent's answer is `answer`, its last page is `url`, and the pages of
    `program` contain what is expected. With neither answer nor program it ends on `url`."""
    text = intent
    for name, value in values.items():
        text = text.replace("{{" + name + "}}", value)
    signed_in = [site for site in sites if site in ACCOUNTS]
    config = {
        "sites": list(sites),
        "require_login": bool(signed_in),
        "storage_state": f"./.auth/{'.'.join(signed_in)}_state.json" if signed_in else None,
        "start_url": start,
        "geolocation": None,
        "intent_template": intent,
        "instantiation_dict": dict(values),
        "intent": text,
        "require_reset": bool(program),
        "eval": _conditions(answer, url, program),
    }
    category = sites[0] if len(sites) == 1 else "mixed"
    ending = Answer(answer or "")
    return SiteTask(config=config, category=category, template=template, moves=(*moves, ending))


@dataclass(frozen=True, slots=True)
class OneSite:
    """Makes the tasks on one site."""

    site: str

    def task(
        self,
        template: str,
        intent: str,
        values: Mapping[str, str],
        moves: Sequence[Move],
        *,
        start: str | None = None,
        answer: str | None = None,
        url: str | None = None,
        program: Sequence[Expected] = (),
    ) -> SiteTask:
        """A `site_task` on this site. `start`: the site's first page by default."""
        return site_task(
            template,
            [self.site],
            f"{base(self.site)}/" if start is None else start,
            intent,
            values,
            moves,
            answer=answer,
            url=url,
            program=program,
        )


def base(site: str) -> str:
    """What a task writes for the base URL of a site."""
    return placeholder(site)


def _conditions(answer: str | None, url: str | None, program: Sequence[Expected]) -> dict[str, Any]:
    """When a task is solved, in WebArena's form."""
    kinds = []
    if answer is not None:
        kinds.append("string_match")
    if url is not None:
        kinds.append("url_match")
    if program:
        kinds.append("program_html")
    return {
        "eval_types": kinds,
        "reference_answers": None if answer is None else {"exact_match": answer},
        "reference_url": url or "",
        "program_html": [
            {
                "url": page,
                "locator": f"document.querySelector('{selector}').outerText",
                "required_contents": _contents(how, expected),
            }
            for page, selector, how, expected in program
        ],
        "url_note": "GOLD in PRED",
    }


def _contents(how: str, expected: str) -> dict[str, Any]:
    return {how: expected if how == "exact_match" else [expected]}
