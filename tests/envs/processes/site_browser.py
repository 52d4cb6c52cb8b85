"""A browser without JavaScript and without Chromium, for tests: it follows links, fills
in forms and evaluates tasks in WebArena's form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode, urljoin

import httpx

from agentrl_envs.environments.web_sites import (
    ACCOUNTS,
    SITES,
    Answer,
    Click,
    Fill,
    SiteTask,
    placeholder,
)

_ENDS = re.compile(r"; max-age=0\b", re.IGNORECASE)
"""In the header of a cookie that is deleted."""

INLINE = ("a", "span", "strong")
VOID = ("input", "link", "meta", "path", "rect", "circle")


@dataclass
class Form:
    action: str
    method: str
    values: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    """Name of a field by its label."""
    radios: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Name and value of a radio button by its label."""
    buttons: list[str] = field(default_factory=list)


class Parsed(HTMLParser):
    """Links, forms and texts by element id of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.forms: list[Form] = []
        self.texts: dict[str, str] = {}
        self._open: list[tuple[str, dict[str, str], list[str]]] = []
        self._labels: dict[str, str] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, given: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in given}
        if tag not in INLINE:
            self._append("\n")
        if tag == "form":
            form = Form(attributes.get("action", ""), attributes.get("method", "get"))
            self.forms.append(form)
        if attributes.get("type") == "radio":
            name, value = attributes["name"], attributes["value"]
            self.forms[-1].radios[value] = (name, value)
            if "checked" in attributes:
                self.forms[-1].values[name] = value
        elif tag == "input":
            name = attributes["name"]
            self.forms[-1].values[name] = attributes.get("value", "")
            label = self._labels.get(attributes.get("id", ""), attributes.get("aria-label", ""))
            self.forms[-1].labels[label] = name
        if tag not in VOID:
            self._open.append((tag, attributes, []))

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        opened, attributes, parts = self._open.pop()
        assert opened == tag, f"<{opened}> is closed by </{tag}>"
        text = shown("".join(parts))
        if tag == "a":
            self.links.append((text, attributes["href"]))
        elif tag == "label" and "for" in attributes:
            self._labels[attributes["for"]] = text
        elif tag == "button":
            self.forms[-1].buttons.append(text)
        elif tag == "h1":
            self.texts["h1"] = text
        if "id" in attributes:
            self.texts["#" + attributes["id"]] = text
        self._append("".join(parts) + ("" if tag in INLINE else "\n"))

    def handle_data(self, data: str) -> None:
        self._append(data.replace("\n", " "))

    def _append(self, text: str) -> None:
        if self._open:
            self._open[-1][2].append(text)


def shown(text: str) -> str:
    """Text as a browser shows it: one line a block, single spaces."""
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(line for line in lines if line)


class SiteBrowser:
    """One browser context."""

    def __init__(
        self, sites: Mapping[str, str], client: httpx.Client, login: Mapping[str, str] | None = None
    ) -> None:
        self._sites = sites
        self._client = client
        self.cookies: dict[str, str] = dict(login or {})
        self.url = ""
        self.status = 0
        self.page = Parsed("")

    def open(self, url: str, form: Mapping[str, str] | None = None) -> None:
        """Open a URL, following redirects. A form is posted."""
        headers = {"cookie": "; ".join(f"{k}={v}" for k, v in self.cookies.items())}
        if form is None:
            response = self._client.get(url, headers=headers)
        else:
            response = self._client.post(url, data=dict(form), headers=headers)
        self._client.cookies.clear()
        self.cookies.update(response.cookies)
        for ended in filter(_ENDS.search, response.headers.get_list("set-cookie")):
            self.cookies.pop(ended.partition("=")[0], None)
        if response.status_code == 303:
            return self.open(urljoin(url, response.headers["location"]))
        self.url, self.status = url, response.status_code
        self.page = Parsed(response.text if "html" in response.headers["content-type"] else "")
        return None

    def click(self, name: str) -> None:
        """Choose the radio button, follow the link or press the button with a name."""
        for form in self.page.forms:
            if name in form.radios:
                form.values.update([form.radios[name]])
                return None
        hrefs = [href for text, href in self.page.links if text == name]
        if hrefs:
            return self.open(urljoin(self.url, hrefs[-1]))
        (form,) = (form for form in self.page.forms if name in form.buttons)
        target = urljoin(self.url, form.action)
        if form.method == "post":
            return self.open(target, form.values)
        return self.open(f"{target}?{urlencode(form.values)}")

    def fill(self, label: str, text: str) -> None:
        """Fill in the field with a label."""
        (form,) = (form for form in self.page.forms if label in form.labels)
        form.values[form.labels[label]] = text

    def real(self, text: str) -> str:
        """A URL of a task, with base URLs for placeholders."""
        for site in sorted(SITES, key=len, reverse=True):
            text = text.replace(placeholder(site), self._sites[site])
        return text

    def solve(self, task: SiteTask) -> str:
        """Start the task and make its moves. Returns the answer."""
        self.open(self.real(task.config["start_url"]))
        for move in task.moves:
            if isinstance(move, Answer):
                return move.text
            if isinstance(move, Click):
                self.click(move.name)
            elif isinstance(move, Fill):
                self.fill(move.label, move.text)
            else:
                self.open(self.real(move.url))
            assert self.status == 200, f"{move}: {self.url} answers {self.status}"
        raise AssertionError("the moves end without an answer")

    def solved(self, config: Mapping[str, Any], answer: str) -> bool:
        """WebArena's evaluation of this context and an answer."""
        evaluation = config["eval"]
        checks = {
            "string_match": lambda: answer == evaluation["reference_answers"]["exact_match"],
            "url_match": lambda: self.real(evaluation["reference_url"]) in self.url,
            "program_html": lambda: all(map(self._holds, evaluation["program_html"])),
        }
        return all(checks[kind]() for kind in evaluation["eval_types"])

    def _holds(self, target: Mapping[str, Any]) -> bool:
        selector = target["locator"].split("'")[1]
        assert target["locator"] == f"document.querySelector('{selector}').outerText"
        looker = SiteBrowser(self._sites, self._client, self.cookies)
        looker.open(self.real(target["url"]))
        text, required = looker.page.texts.get(selector, ""), target["required_contents"]
        if "exact_match" in required:
            return text == required["exact_match"]
        return all(each in text for each in required["must_include"])


def log_in(sites: Mapping[str, str], client: httpx.Client) -> dict[str, str]:
    """The cookies of a context that is signed in to every site: its storage state."""
    browser = SiteBrowser(sites, client)
    for site, account in ACCOUNTS.items():
        browser.open(f"{sites[site]}/login")
        browser.fill("Username", account.username)
        browser.fill("Password", account.password)
        browser.click("Sign in")
        assert browser.page.texts["#user"] == account.username
    return browser.cookies
