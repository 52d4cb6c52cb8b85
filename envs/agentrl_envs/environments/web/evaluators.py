"""WebArena's evaluators (arXiv 2307.13854, section 3.2): a task's score is their product, 0 or 1.

Differences from WebArena's own code: locators are parsed instead of evaluated (`locators`); the
words of an answer are found by a pattern, where WebArena uses NLTK's tokenizer; a judge model is
asked only where one is configured.
"""

from __future__ import annotations

import re
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

from agentrl_envs.environments.web.locators import Step, parse_locator
from agentrl_envs.environments.web.sites import Addresses
from agentrl_envs.environments.web.task_config import (
    OR,
    Evaluation,
    ProgramHtml,
    TaskConfig,
)
from agentrl_envs.errors import TaskError

UNACHIEVABLE = "N/A"
"""The reference of a task that cannot be done; `string_note` says why."""

_WORD = re.compile(r"\w+(?:[-.,:/'’]\w+)*|\S")
"""A word, with numbers such as `2.5` as one, or another character."""


class Judge(Protocol):
    """A model that compares texts."""

    async def means_the_same(self, intent: str, reference: str, answer: str) -> bool:
        """Whether an answer to the intent means the same as a reference."""
        ...

    async def gives_the_reason(self, intent: str, reason: str, answer: str) -> bool:
        """Whether an answer says for what reason the intent cannot be done."""
        ...


class FinalState(Protocol):
    """The browser when the agent has stopped, as evaluators use it."""

    @property
    def url(self) -> str:
        """Real address of the current tab."""
        ...

    async def open(self, url: str) -> None:
        """Load a page, with the session's cookies, also where the tab shows it already."""
        ...

    async def read(self, steps: tuple[Step, ...]) -> str | None:
        """The text at a locator's steps; None if there is no such element."""
        ...


async def grade(
    config: TaskConfig,
    answer: str,
    state: FinalState,
    addresses: Addresses,
    judge: Judge | None,
) -> float:
    """The score of an episode, 0 or 1. Raises `TaskError` if an evaluator lacks what it needs."""
    evaluation = config.evaluation
    for kind in evaluation.eval_types:
        if kind == "string_match":
            passed = await string_match(evaluation, answer, config.intent, judge)
        elif kind == "url_match":
            passed = url_match(evaluation, state.url, addresses)
        else:
            passed = await program_html(evaluation.program_html, state, addresses)
        if not passed:
            return 0.0
    return 1.0


async def string_match(
    evaluation: Evaluation, answer: str, intent: str, judge: Judge | None
) -> bool:
    """Whether the answer holds against each kind of reference that is given."""
    references = evaluation.reference_answers
    if references is None:
        raise TaskError("eval.reference_answers: string_match needs it; add exact_match")
    if references.exact_match is not None and cleaned(answer) != cleaned(references.exact_match):
        return False
    single = len(references.must_include) == 1
    if not all(includes(answer, each, by_word=single) for each in references.must_include):
        return False
    for reference in references.fuzzy_match:
        if cleaned(reference) == cleaned(answer):
            continue
        if judge is None:
            raise TaskError(
                "eval.reference_answers.fuzzy_match: a judge model compares such answers, and none "
                "is configured; set the option judge, or leave these tasks out"
            )
        if reference == UNACHIEVABLE and evaluation.string_note:
            holds = await judge.gives_the_reason(intent, evaluation.string_note, answer)
        else:
            holds = await judge.means_the_same(intent, reference, answer)
        if not holds:
            return False
    return True


def url_match(evaluation: Evaluation, url: str, addresses: Addresses) -> bool:
    """Whether the current address contains the host and path of a reference, and has each query
    parameter with a value that a reference names (WebArena's `GOLD in PRED`)."""
    note = evaluation.url_note or "GOLD in PRED"
    if not evaluation.references or note != "GOLD in PRED":
        raise TaskError("eval.reference_url: url_match needs it, with url_note 'GOLD in PRED'")
    references = [addresses.real(each) for each in evaluation.references]
    base, query = _url_parts(url)
    wanted: dict[str, set[str]] = {}
    for reference in references:
        for key, values in _url_parts(reference)[1].items():
            wanted.setdefault(key, set()).update(values)
    if not any(_url_parts(reference)[0] in base for reference in references):
        return False
    return all(
        any(value in query.get(key, ()) for value in values) for key, values in wanted.items()
    )


async def program_html(
    targets: tuple[ProgramHtml, ...], state: FinalState, addresses: Addresses
) -> bool:
    """Whether every element that is named has its required contents. A page that a target names is
    loaded, so that input counts only if it was saved; `last` is the page as the agent left it."""
    if not targets:
        raise TaskError("eval.program_html: the evaluator program_html needs at least one entry")
    last = state.url
    shown = "last"  # or the address that was loaded for the target before
    for target in targets:
        url = last if target.url == "last" else addresses.real(target.url)
        if url.startswith("func:") or target.locator.startswith("func:"):
            raise TaskError(
                f"eval.program_html: helper {url if url.startswith('func:') else target.locator!r} "
                "is not known; name an address and a locator"
            )
        if target.url != shown and url != shown:
            await state.open(url)
            shown = url
        text = await state.read(parse_locator(target.locator))
        if text is None or not _contents_hold(target, text):
            return False
    return True


def _contents_hold(target: ProgramHtml, text: str) -> bool:
    required = target.required_contents
    if required.exact_match is not None:
        return any(cleaned(text) == cleaned(each) for each in required.exact_match.split(OR))
    return all(
        any(includes(text, each, by_word=False) for each in alternatives.split(OR))
        for alternatives in required.must_include
    )


def includes(text: str, reference: str, *, by_word: bool) -> bool:
    """Whether `reference` occurs in `text`; by word: a reference of one character, such as 0, must
    be a word of it."""
    wanted, given = cleaned(reference), cleaned(text)
    if by_word and len(wanted) == 1:
        return wanted in _WORD.findall(given)
    return wanted in given


def cleaned(text: str) -> str:
    """Lower case, without the quotes around it and with single spaces."""
    text = " ".join(text.split())
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    return text.strip().lower()


def _url_parts(url: str) -> tuple[str, dict[str, list[str]]]:
    parts = urlsplit(url.rstrip("/"))
    return f"{parts.netloc}{parts.path}".rstrip("/"), parse_qs(parts.query)
