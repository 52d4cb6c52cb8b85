"""Locators of WebArena's `program_html` evaluators: parsed, never evaluated.

WebArena writes them as JavaScript and evaluates them in the page. Here a locator is read by this
grammar, and its steps are data for one function that walks the document:

    locator  = "" | "document" call { step } "." property
    call     = ".querySelector(TEXT)" | ".querySelectorAll(TEXT)" | ".getElementById(TEXT)"
             | ".getElementsByClassName(TEXT)" | ".getElementsByTagName(TEXT)"
    step     = call | "[NUMBER]" | ".children" | ".parentElement" | ".firstElementChild"
             | ".lastElementChild" | ".nextElementSibling" | ".previousElementSibling"
    property = "outerText" | "innerText" | "textContent" | "value" | "checked" | "href" | "src"
             | "title" | "innerHTML" | "outerHTML" | "selectedIndex"

An empty locator is the whole page.
"""

from __future__ import annotations

import re
from typing import Final

from agentrl_envs.errors import TaskError

_CALL = re.compile(
    r"""\.(querySelector|querySelectorAll|getElementById|getElementsByClassName"""
    r"""|getElementsByTagName)\(\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`\\$]*`)\s*\)"""
)
_INDEX = re.compile(r"\[(\d{1,4})\]")
_WALK = re.compile(
    r"\.(children|parentElement|firstElementChild|lastElementChild|nextElementSibling"
    r"|previousElementSibling)\b"
)
_PROPERTY = re.compile(
    r"\.(outerText|innerText|textContent|value|checked|href|src|title|innerHTML|outerHTML"
    r"|selectedIndex)"
)

Step = tuple[str, str | int]
"""(name of a call, its text), ("index", number), ("walk", property) or ("read", property)."""

READ: Final = """
steps => {
  let at = document;
  for (const [kind, value] of steps) {
    if (at === null || at === undefined) return null;
    at = kind === "index" || kind === "walk" || kind === "read" ? at[value] : at[kind](value);
  }
  return at === null || at === undefined ? null : String(at);
}
"""
"""Follows the steps; null if there is no such element."""


def parse_locator(text: str) -> tuple[Step, ...]:
    """The steps of a locator; none for the whole page. Raises `TaskError` for a text that the
    grammar does not have."""
    rest = text.strip().rstrip(";")
    if not rest:
        return ()
    steps: list[Step] = []
    if not rest.startswith("document"):
        raise _unknown(text, rest)
    rest = rest.removeprefix("document")
    while rest:
        if found := _CALL.match(rest):
            steps.append((found[1], _unquote(found[2])))
        elif found := _INDEX.match(rest):
            steps.append(("index", int(found[1])))
        elif found := _WALK.match(rest):
            steps.append(("walk", found[1]))
        elif (found := _PROPERTY.fullmatch(rest)) and steps:
            steps.append(("read", found[1]))
        else:
            raise _unknown(text, rest)
        rest = rest[found.end() :]
    if steps[-1][0] != "read":
        raise _unknown(text, "the end, where a property such as .outerText is missing")
    return tuple(steps)


def _unquote(quoted: str) -> str:
    return re.sub(r"\\(.)", r"\1", quoted[1:-1])


def _unknown(text: str, where: str) -> TaskError:
    return TaskError(
        f"locator: {text[:120]!r} is not understood at {where[:60]!r}; write it as "
        "document.querySelector('CSS').outerText or in another form of docs/environments/web.md"
    )
