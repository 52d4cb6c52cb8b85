"""The sites: where they are, their accounts and their tasks.

Two sources: what the options name, or the sites of this package, which this process serves on
loopback from the first session on.

A task names a site by a placeholder (`__SHOPPING__`) or by its public address; the spec says where
the site is. The agent sees public addresses (WebArena's, such as `http://onestopmarket.com`), so
that observations do not depend on ports, and the actions and evaluators map them back.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from agentrl_envs.browser.chromium import host_of
from agentrl_envs.env import Split, Task
from agentrl_envs.environments.web.options import Account, WebOptions
from agentrl_envs.environments.web.task_config import (
    TaskConfig,
    config_of,
    task_of,
    unsupported,
)
from agentrl_envs.errors import TaskError

PUBLIC = {
    "shopping": "http://onestopmarket.com",
    "shopping_admin": "http://luma.com/admin",
    "reddit": "http://reddit.com",
    "gitlab": "http://gitlab.com",
    "map": "http://openstreetmap.org",
    "wikipedia": "http://wikipedia.org",
    "homepage": "http://homepage.com",
}
"""The addresses that WebArena shows to the agent."""


def placeholder(site: str) -> str:
    """`__SHOPPING__` for `shopping`."""
    return f"__{site.upper()}__"


class Addresses:
    """Base URLs by site name, and the way between placeholders, public and real addresses."""

    def __init__(self, sites: Mapping[str, str]) -> None:
        self.sites = {name: url.rstrip("/") for name, url in sites.items()}
        self._public = {name: PUBLIC.get(name, f"http://{name}.example") for name in self.sites}
        longest = sorted(self.sites, key=lambda name: -len(self.sites[name]))
        self._to_public = [(self.sites[name], self._public[name]) for name in longest]
        longest = sorted(self.sites, key=lambda name: -len(self._public[name]))
        self._to_real = [
            pair
            for name in longest
            for pair in (
                (placeholder(name), self.sites[name]),
                (self._public[name], self.sites[name]),
            )
        ]

    def real(self, text: str) -> str:
        """`text` with placeholders and public addresses replaced by real ones."""
        for written, url in self._to_real:
            text = text.replace(written, url)
        return text

    def public(self, text: str) -> str:
        """`text` with real addresses replaced by public ones."""
        for url, shown in self._to_public:
            text = text.replace(url, shown)
        return text

    def reaches(self, url: str) -> bool:
        """Whether the browser can load a real URL: it is on the host and port of a site."""
        hosts = {host_of(base) for base in self.sites.values()}
        try:
            return url.lower().startswith(("http://", "https://")) and host_of(url) in hosts
        except ValueError:  # no address, such as one with a port that is no number
            return False

    def site_of(self, url: str) -> str | None:
        """The name of the site whose base URL a real URL begins with."""
        for name in sorted(self.sites, key=lambda name: -len(self.sites[name])):
            base = self.sites[name]
            if url == base or url.startswith((f"{base}/", f"{base}?", f"{base}#")):
                return name
        return None


def unreachable(config: TaskConfig, addresses: Addresses) -> str | None:
    """Why a task begins or is graded on a page that the browser cannot load, such as that of an
    unknown placeholder; None: it does not. A reference of `url_match` without scheme is only a part
    of an address, and of several alternatives one is enough."""
    evaluation = config.evaluation
    named = [("start_url", url) for url in config.start_urls]
    if "program_html" in evaluation.eval_types:
        targets = (target.url for target in evaluation.program_html if target.url != "last")
        named += [("eval.program_html.url", url) for url in targets]
    if "url_match" in evaluation.eval_types:
        references = [("eval.reference_url", url) for url in evaluation.references]
        parts = [url for _, url in references if "://" not in url and not url.startswith("__")]
        reached = any(addresses.reaches(addresses.real(url)) for _, url in references)
        named += [] if reached or parts else references[:1]
    for field, url in named:
        if not addresses.reaches(addresses.real(url)):
            return f"{field}: {url[:200]} is on none of the sites; add it to web.options.sites"
    return None


class Sites(Protocol):
    """The sites and tasks of a task set."""

    def tasks(self) -> list[Task]:
        """Every task, in the order of its source."""
        ...

    def addresses(self) -> Addresses:
        """Where the sites are; starts them if this process serves them."""
        ...

    def accounts(self) -> Mapping[str, Account]:
        """Accounts by site."""
        ...

    def words(self) -> tuple[str, ...] | None:
        """Every word of the sites; None: they are open."""
        ...

    def content(self, config: TaskConfig) -> int:
        """Which content of the sites a task is on: the same address may be another page in another
        one."""
        ...


class GivenSites:
    """The sites and the task file that the options name."""

    def __init__(self, options: WebOptions) -> None:
        self._options = options
        self._addresses = Addresses(options.sites)

    def tasks(self) -> list[Task]:
        options, found, left_out = self._options, [], []
        split: Split | None = "heldout" if options.evaluation_only else None
        for content in _configs(Path(options.tasks)):
            task = task_of(content, split=split)
            number, config = content.get("task_id", "?"), config_of(task)
            if missing := set(config.sites) - set(options.sites):
                raise TaskError(
                    f"tasks: task {number} uses the site {min(missing)!r}, which is not in "
                    "web.options.sites; add its base URL"
                )
            reason = unsupported(config, judge=options.judge is not None)
            if reason := reason or unreachable(config, self._addresses):
                left_out.append(f"{number} ({reason})")
            elif not options.categories or task.category in options.categories:
                found.append(task)
        if left_out:
            logging.getLogger(__name__).warning(
                "%s: %d tasks are left out: %s", options.tasks, len(left_out), ", ".join(left_out)
            )
        return found

    def addresses(self) -> Addresses:
        return self._addresses

    def accounts(self) -> Mapping[str, Account]:
        return self._options.accounts

    def words(self) -> None:
        return None

    def content(self, config: TaskConfig) -> int:
        del config
        return 0


class OwnSites:
    """The sites of this package."""

    def __init__(self, options: WebOptions) -> None:
        self._options = options
        self._contents = range(options.seed, options.seed + options.contents)

    def tasks(self) -> list[Task]:
        from agentrl_envs.environments.web_sites import tasks_of_contents

        options = self._options
        return [
            task_of(each.config, each.category)
            for each in tasks_of_contents(self._contents)
            if each.clicks <= options.max_clicks
            and (not options.categories or each.category in options.categories)
            and (not options.templates or each.template in options.templates)
        ]

    def addresses(self) -> Addresses:
        return Addresses(_served(self._contents))

    def accounts(self) -> Mapping[str, Account]:
        from agentrl_envs.environments.web_sites import ACCOUNTS

        return {
            site: Account(username=account.username, password=account.password)
            for site, account in ACCOUNTS.items()
        }

    def words(self) -> tuple[str, ...]:
        from agentrl_envs.environments.web_sites import site_words

        return tuple(sorted({word for seed in self._contents for word in site_words(seed)}))

    def content(self, config: TaskConfig) -> int:
        from agentrl_envs.environments.web_sites import selected

        chosen = selected(config.start_url)
        return self._options.seed if chosen is None else chosen


def sites_of(options: WebOptions) -> Sites:
    """The sites that the options name."""
    return GivenSites(options) if options.sites else OwnSites(options)


_running: dict[range, Mapping[str, str]] = {}
_stack = ExitStack()


def _served(contents: range) -> Mapping[str, str]:
    """Base URLs of this package's sites, served by this process until it ends."""
    from agentrl_envs.environments.web_sites import running_sites

    if contents not in _running:
        sites = running_sites(contents[0], contents=len(contents))
        _running[contents] = _stack.enter_context(sites)
    return _running[contents]


def _configs(path: Path) -> list[dict[str, Any]]:
    """The JSON objects of a file, or of a folder's files by name."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    found: list[dict[str, Any]] = []
    for file in files:
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise TaskError(f"tasks: {file}: {error.strerror}; name a file that is there") from None
        except ValueError as error:
            raise TaskError(f"tasks: {file} is no JSON: {error}; correct it") from None
        found += content if isinstance(content, list) else [content]
    if not all(isinstance(each, dict) and each.get("sites") for each in found) or not found:
        raise TaskError(f"tasks: {path} holds no list of objects with `sites`; see WebArena's form")
    return found
