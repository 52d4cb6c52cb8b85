"""The terse text form, for small models: words without punctuation, and a list of actions.

    goal tell the price of the red mug ; page shop ; click home , cart ; field search ; text red mug
    > type search red mug

Texts are lower case and split where a character is neither letter nor digit. An element is named by
its words, which are often words of the goal, and has a number only if another one before it has the
same name. Only the first observation states the goal. What may be typed are the phrases that the
intent's template was filled with (else its runs of words), and what may be answered are the texts
in view, so the agent chooses among actions instead of spelling them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from agentrl_envs.browser.accessibility import Element
from agentrl_envs.browser.actions import Action, Click, Goto, Plain, Scroll, Stop, Type
from agentrl_envs.env import Observation
from agentrl_envs.environments.web.scene import Refusal, Scene
from agentrl_envs.environments.web.sites import placeholder
from agentrl_envs.errors import TaskError

CLICKED = frozenset(
    ("link", "button", "checkbox", "radio", "option", "tab", "menuitem", "switch", "treeitem")
)
TYPED = frozenset(("textbox", "searchbox", "spinbutton"))
TOLD = frozenset(
    ("StaticText", "heading", "cell", "gridcell", "columnheader", "rowheader", "status", "alert")
)
"""Roles whose names are shown as text, and may be the answer."""

MOST_ELEMENTS = 60
"""Elements to act on that are shown."""
MOST_WORDS = 8
"""Words of one element that are shown."""
MOST_ANSWER_WORDS = 6

UNKNOWN = "unknown"
"""Stands for a word that is not in the vocabulary."""

FORM_WORDS = (
    *(
        ",",
        ";",
        "action",
        "back",
        "click",
        "down",
        "field",
        "go",
        "goal",
        "no",
        "off",
        "on",
        "outside",
    ),
    *("page", "scroll", "sites", "stop", "such", "text", "the", "there", "to", "type", "up"),
    UNKNOWN,
    "unnamed",
)
STOP_WORDS = frozenset(
    ("a", "an", "and", "by", "for", "from", "in", "is", "it", "its", "me", "my", "of", "on", "or")
) | frozenset(("that", "the", "to", "with"))

_WORD = re.compile(r"[a-z0-9]+")


class TerseForm:
    """The `terse` text form. `words`: a closed vocabulary; None: open."""

    def __init__(self, words: Iterable[str] | None) -> None:
        self._words = None if words is None else frozenset(words) | frozenset(self._own_words())

    @staticmethod
    def _own_words() -> Iterator[str]:
        yield from FORM_WORDS
        yield from map(str, range(1, MOST_ELEMENTS + 1))

    def instructions(self) -> str:
        return ""

    def vocabulary(self) -> tuple[str, ...] | None:
        return None if self._words is None else tuple(sorted(self._words))

    def menu(self, scene: Scene) -> Mapping[str, Action]:
        """Clicks, texts to type, scrolling, going back and, last, the ends of the episode."""
        actions: dict[str, Action] = {}
        alone = _alone_in_their_form(scene.elements)
        typed = scene.phrases or _runs(scene.intent)
        for element, name in self._named(scene.elements):
            if element.role in CLICKED:
                actions.setdefault(f"click {name}", Click(element.id))
            else:
                for phrase in typed:
                    action = Type(element.id, phrase, element.id in alone)
                    actions.setdefault(f"type {name} {self._spelled(phrase)}", action)
        actions |= self._moves(scene)
        actions["stop"] = Stop()
        if scene.wants_answer:
            for element in scene.elements:
                length = len(_words(element.name))
                if element.role in TOLD | CLICKED and 1 <= length <= MOST_ANSWER_WORDS:
                    answer = self._spelled("stop", element.name)
                    actions.setdefault(answer, Stop(element.name))
        return actions

    def _moves(self, scene: Scene) -> dict[str, Action]:
        actions: dict[str, Action] = {}
        if scene.view.below:
            actions["scroll down"] = Scroll("down")
        if scene.view.above:
            actions["scroll up"] = Scroll("up")
        if scene.view.has_back:
            actions["go back"] = Plain("go_back")
        if len(scene.sites) > 1:
            for site in scene.sites:
                actions[self._spelled("go to", site)] = Goto(f"{placeholder(site)}/")
        return actions

    def observation(self, scene: Scene, menu: Mapping[str, Action], message: str) -> Observation:
        parts = [self._spelled(message)] if message else []
        if scene.is_first:
            parts.append(self._spelled("goal", scene.intent, limit=None))
        parts.append(self._spelled("page", scene.view.titles[scene.view.current]))
        parts += self._lines(scene)
        return Observation(text=" ; ".join(parts), admissible=tuple(menu))

    def relabel(self, observation: str, goal: str) -> str:
        """The first observation of an episode with another goal. Raises `TaskError` if the text is
        no first observation."""
        head, found, rest = observation.partition(" ; page ")
        if not found or not head.startswith("goal "):
            raise TaskError(f"observation: holds no goal: {observation[:80]!r}; give a first one")
        return self._spelled("goal", goal, limit=None) + found + rest

    def _lines(self, scene: Scene) -> Iterator[str]:
        """What is on the page, in its order; neighbours of a kind share its word."""
        names = {element.id: name for element, name in self._named(scene.elements)}
        shown = (self._shown(element, names.get(element.id)) for element in scene.elements)
        for kind, line in groupby((each for each in shown if each), key=lambda each: each[0]):
            yield f"{kind} {' , '.join(text for _, text in line)}"

    def _shown(self, element: Element, name: str | None) -> tuple[str, str] | None:
        """Kind and text of an element; None: it is not shown. `name`: of one to act on."""
        if name is not None:
            kind = "click" if element.role in CLICKED else "field"
            return kind, f"{name} {_state(element)}".rstrip()
        if element.role in TOLD and _words(element.name):
            return "text", self._spelled(element.name)
        return None

    def _named(self, elements: Iterable[Element]) -> list[tuple[Element, str]]:
        """The elements to act on and their names, which are all different."""
        usable = [each for each in elements if each.role in CLICKED | TYPED][:MOST_ELEMENTS]
        named: dict[str, Element] = {}
        for element in usable:
            name = own = self._spelled(element.name) or "unnamed"
            number = 1
            while name in named:
                number += 1
                name = f"{own} {number}"
            named[name] = element
        return [(element, name) for name, element in named.items()]

    def parse(self, reply: str, menu: Mapping[str, Action]) -> Action | Refusal:
        action = menu.get(" ".join(reply.lower().split()))
        return Refusal("no such action") if action is None else action

    def _spelled(self, *texts: str, limit: int | None = MOST_WORDS) -> str:
        words = [word for text in texts for word in _words(text)[:limit]]
        if self._words is not None:
            words = [word if word in self._words else UNKNOWN for word in words]
        return " ".join(words)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _state(element: Element) -> str:
    """`on` or `off` for what is checked or selected."""
    for name, value in element.properties:
        if name in ("checked", "selected", "pressed"):
            return "on" if str(value).lower() == "true" else "off"
    return ""


def _alone_in_their_form(elements: Iterable[Element]) -> set[int]:
    """Ids of the fields that are the only one of their form: typing sends those, by Enter."""
    form, depth, counted, fields = 0, 0, 0, []
    for element in elements:
        if form and element.depth <= depth:
            form = 0
        if element.role in ("form", "search"):
            counted += 1
            form, depth = counted, element.depth
        if element.role in TYPED | {"combobox", "radio", "checkbox"}:
            fields.append((form, element.id))
    grouped = (list(group) for _, group in groupby(sorted(fields), key=lambda field: field[0]))
    return {group[0][1] for group in grouped if len(group) == 1}


def _runs(intent: str) -> tuple[str, ...]:
    """Quoted phrases of an intent; without any, its runs of words between stop words."""
    if quoted := re.findall(r'"([^"]+)"', intent):
        return tuple(quoted)
    runs: list[list[str]] = [[]]
    for word in re.findall(r"[\w$@.-]+", intent):
        if word.lower() in STOP_WORDS:
            runs.append([])
        else:
            runs[-1].append(word.rstrip("."))
    phrases = [" ".join(run) for run in runs if run] + [word for run in runs for word in run]
    return tuple(dict.fromkeys(phrases))
