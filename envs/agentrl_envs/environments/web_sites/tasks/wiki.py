"""Tasks in the wiki: questions whose answers are one to three articles away."""

from __future__ import annotations

from collections.abc import Iterator

from agentrl_envs.environments.web_sites.content.wiki import Article
from agentrl_envs.environments.web_sites.state import State
from agentrl_envs.environments.web_sites.tasks.form import Click, OneSite, SiteTask, base

SITE = "wikipedia"
BASE = base(SITE)
task = OneSite(SITE).task


def open_listed(state: State) -> Iterator[SiteTask]:
    """One click: an article in the list of its topic."""
    for article in state.wiki.values():
        yield task(
            "wiki/open-listed",
            "open the article {{title}}",
            {"title": article.title},
            [Click(article.title)],
            start=f"{BASE}/topic/{article.topic}",
            url=_page(article),
        )


def open_article(state: State) -> Iterator[SiteTask]:
    """Two clicks: topic and article."""
    for article in state.wiki.values():
        yield task(
            "wiki/open-article",
            "open the article {{title}} in {{topic}}",
            {"title": article.title, "topic": article.topic},
            [Click(article.topic), Click(article.title)],
            url=_page(article),
        )


def tell_fact(state: State) -> Iterator[SiteTask]:
    """Two clicks and an answer."""
    for article in state.wiki.values():
        for name, value in article.facts:
            yield task(
                "wiki/tell-fact",
                "what does the article {{title}} in {{topic}} say under {{name}} ?",
                {"title": article.title, "topic": article.topic, "name": name},
                [Click(article.topic), Click(article.title)],
                answer=value,
            )


def open_linked(state: State) -> Iterator[SiteTask]:
    """Three clicks: to an article that another one names."""
    for article in state.wiki.values():
        for name, linked in _links(state, article):
            yield task(
                "wiki/open-linked",
                "open the article about the {{name}} of {{title}} in {{topic}}",
                {"name": name, "title": article.title, "topic": article.topic},
                [Click(article.topic), Click(article.title), Click(linked.title)],
                url=_page(linked),
            )


def tell_linked(state: State) -> Iterator[SiteTask]:
    """Three clicks and an answer: a fact about an article that another one names."""
    for article in state.wiki.values():
        for name, linked in _links(state, article):
            for asked, value in linked.facts:
                yield task(
                    "wiki/tell-linked",
                    "what does the article about the {{name}} of {{title}} in {{topic}} say "
                    "under {{asked}} ?",
                    {
                        "name": name,
                        "title": article.title,
                        "topic": article.topic,
                        "asked": asked,
                    },
                    [Click(article.topic), Click(article.title), Click(linked.title)],
                    answer=value,
                )


def tell_twice_linked(state: State) -> Iterator[SiteTask]:
    """Four clicks and an answer: two references away."""
    for article in state.wiki.values():
        for first, middle in _links(state, article):
            for second, last in _links(state, middle):
                if last != article:
                    yield task(
                        "wiki/tell-twice-linked",
                        "what is the first fact about the {{second}} of the {{first}} of "
                        "{{title}} in {{topic}} ?",
                        {
                            "second": second,
                            "first": first,
                            "title": article.title,
                            "topic": article.topic,
                        },
                        [
                            Click(article.topic),
                            Click(article.title),
                            Click(middle.title),
                            Click(last.title),
                        ],
                        answer=last.facts[0][1],
                    )


def _links(state: State, article: Article) -> Iterator[tuple[str, Article]]:
    """The articles that the facts of an article name."""
    titles = {each.title: each for each in state.wiki.values()}
    return ((name, titles[value]) for name, value in article.facts if value in titles)


def _page(article: Article) -> str:
    return f"{BASE}/wiki/{article.slug}"


TEMPLATES = (
    open_listed,
    open_article,
    tell_fact,
    open_linked,
    tell_linked,
    tell_twice_linked,
)
