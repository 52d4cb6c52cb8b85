"""Content of the wiki: articles about people, cities, rivers and museums that refer to each other.

The wiki is read-only. Its museums are those of the map, so that tasks can span both sites."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from agentrl_envs.environments.web_sites.content.map import Town
from agentrl_envs.environments.web_sites.content.words import people, slug

CITIES = ("aldmoor", "brinholt", "corvane", "dunmere", "eskvale", "farholm", "glenby", "haverton")
RIVERS = ("arle", "brenn", "cald", "dovey")
OCCUPATIONS = ("painter", "engineer", "chemist", "poet", "pilot", "surgeon")
TOPICS = ("cities", "rivers", "people", "museums")

PEOPLE = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    title: str
    topic: str
    facts: tuple[tuple[str, str], ...]
    """Property and value. A value that is the title of an article is a link to it."""

    @property
    def slug(self) -> str:
        return slug(self.title)

    def fact(self, name: str) -> str:
        return dict(self.facts)[name]


def generate_wiki(random: Random, town: Town) -> dict[str, Article]:
    """29 articles by slug: 8 cities, 4 rivers, 12 people and the 5 museums of the map."""
    persons = people(random, PEOPLE)
    mayors = random.sample(persons, len(CITIES))
    architects = random.sample(persons, len(town.of_kind("museum")))
    years = iter(random.sample(range(1700, 1990), 60))
    articles: list[Article] = []
    facts: tuple[tuple[str, str], ...]
    for city, mayor in zip(CITIES, mayors, strict=True):
        facts = (
            ("founded", str(next(years))),
            ("population", str(random.randint(2, 90) * 1000)),
            ("river", random.choice(RIVERS)),
            ("mayor", mayor),
        )
        articles.append(Article(title=city, topic="cities", facts=facts))
    for river in RIVERS:
        facts = (("length", f"{random.randint(40, 400)} km"), ("source", random.choice(CITIES)))
        articles.append(Article(title=river, topic="rivers", facts=facts))
    for person in persons:
        facts = (
            ("born", str(next(years))),
            ("birthplace", random.choice(CITIES)),
            ("occupation", random.choice(OCCUPATIONS)),
        )
        articles.append(Article(title=person, topic="people", facts=facts))
    for museum, architect in zip(town.of_kind("museum"), architects, strict=True):
        facts = (("opened", str(next(years))), ("architect", architect))
        articles.append(Article(title=museum.name, topic="museums", facts=facts))
    return {article.slug: article for article in articles}
