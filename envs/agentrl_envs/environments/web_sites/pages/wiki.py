"""Pages of the wiki."""

from __future__ import annotations

from agentrl_envs.environments.web_sites.content.wiki import TOPICS
from agentrl_envs.environments.web_sites.visit import (
    Page,
    Route,
    Site,
    Visit,
    missing,
    search_results,
)


def home(visit: Visit) -> Page:
    return Page("wiki/home.html", {"topics": TOPICS, "count": len(visit.state.wiki)})


def topic(visit: Visit) -> Page:
    name = visit.path["topic"]
    if name not in TOPICS:
        return missing("topic")
    articles = [each for each in visit.state.wiki.values() if each.topic == name]
    return Page("wiki/topic.html", {"topic": name, "articles": articles})


def article(visit: Visit) -> Page:
    wiki = visit.state.wiki
    shown = wiki.get(visit.path["slug"])
    if shown is None:
        return missing("article")
    titles = {each.title: each.slug for each in wiki.values()}
    mentions = [each for each in wiki.values() if shown.title in (value for _, value in each.facts)]
    values = {"article": shown, "titles": titles, "mentions": mentions[:12]}
    return Page("wiki/article.html", values)


def search(visit: Visit) -> Page:
    articles = ((each.title, each) for each in visit.state.wiki.values())
    return search_results(visit, "wiki/search.html", "articles", articles)


SITE = Site(
    name="wikipedia",
    title="Small Wiki",
    links={"Contents": "/"},
    search="Search articles",
    routes=(
        Route("GET", "/", home),
        Route("GET", "/topic/{topic}", topic),
        Route("GET", "/wiki/{slug}", article),
        Route("GET", "/search", search),
    ),
)
