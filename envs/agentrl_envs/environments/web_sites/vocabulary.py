"""The words of the sites, for models with a closed vocabulary."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from agentrl_envs.environments.web_sites.accounts import ACCOUNTS
from agentrl_envs.environments.web_sites.pages import ALL_SITES
from agentrl_envs.environments.web_sites.state import seeded
from agentrl_envs.environments.web_sites.tasks.generate import generated_tasks

NUMBERS = range(100)
"""Numbers that are words, besides those in the content: quantities, counts and totals."""

_MARKUP = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|<[^>]*>", re.DOTALL)
_QUOTED = re.compile(r'"([^"]*)"')
_WORD = re.compile(r"[a-z0-9]+")


@cache
def site_words(seed: int = 0) -> tuple[str, ...]:
    """Every word of the content of a seed, of the pages' own text and of the intents of the
    generated tasks: sorted, in lower case, split where a character is neither letter nor digit.

    Sums that pages compute, such as the total of a cart, may have other numbers."""
    texts = [*_strings(seeded(seed)), *_strings(ALL_SITES), *_strings(ACCOUNTS), *_template_texts()]
    texts += [str(task.config["intent"]) for task in generated_tasks(seed)]
    texts += map(str, NUMBERS)
    return tuple(sorted({word for text in texts for word in _WORD.findall(text.lower())}))


def _strings(value: Any) -> Iterator[str]:
    """Every string and number in nested records and containers."""
    if isinstance(value, str | int):
        yield str(value)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _strings(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _strings(key)
            yield from _strings(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _strings(each)


def _template_texts() -> Iterator[str]:
    """The text of the templates, and the words in their attributes and expressions."""
    for source in _templates(files(__package__).joinpath("templates")):
        yield _MARKUP.sub(" ", source)
        for markup in _MARKUP.findall(source):
            yield from _QUOTED.findall(markup)


def _templates(folder: Traversable) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _templates(entry)
        elif entry.name.endswith(".html"):
            yield entry.read_text(encoding="utf-8")
