"""A generated corpus of linked facts, and questions that only a chain of searches answers.

Every fact is a document of its own: `The rival of Mavelin is Torbin.` A question follows one to
four of them: "Who is the mentor of the rival of Mavelin?" It names nobody but the first person.
People who share a fact are neighbours; a question is kept only if its answer is as many neighbours
away from the first person as it has hops, so that no chain of fewer documents leads there. And each
document takes a search of its own, as only the one before it has the name to search for
(`tests/envs/environments/search/test_facts.py` tries every query).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from random import Random

from agentrl_envs.environments.search.retrieval.retriever import Document

RELATIONS = ("mentor", "neighbour", "rival", "partner", "cousin", "tenant", "patron", "guide")
MOST_HOPS = 4
_ONSETS, _VOWELS, _CODAS = "bdfgklmnprstvz", "aeiou", "klmnrs"
_ATTEMPTS = 2_000
"""Draws to find a question of a number of hops; a handful suffices in a world that has room."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A question: the relations to follow from a person, in order, and who is at the end."""

    start: str
    relations: tuple[str, ...]
    answer: str

    @property
    def text(self) -> str:
        return f"Who is {describe(self.start, self.relations)}?"


@dataclass(frozen=True)
class FactWorld:
    """People and the relations between them: a function of seed and size. Worlds of a size have the
    same names, so that a model cannot learn the facts of one by heart and be right in another."""

    seed: int
    people: int
    facts: int
    """Facts about each person: (relation, other person), with different relations."""

    @property
    def key(self) -> str:
        """What distinguishes this world from others."""
        return f"facts-{self.seed}-{self.people}-{self.facts}"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """One invented word each."""
        rng, found = Random(f"facts/{self.people}/names"), dict[str, None]()
        while len(found) < self.people:
            letters = (rng.choice(kind) for kind in (_ONSETS, _VOWELS, _ONSETS, _VOWELS, _CODAS))
            name = "".join(letters)
            if name not in RELATIONS:
                found[name.title()] = None
        return tuple(found)

    @cached_property
    def links(self) -> Mapping[str, Mapping[str, str]]:
        """The person at the end of each relation, by name and relation. Each person is at the end
        of `facts` relations, so that everybody's name is in equally many documents."""
        links: dict[str, dict[str, str]] = {name: {} for name in self.names}
        for number in range(self.facts):
            rng = Random(f"{self.key}/{number}")
            ring = list(self.names)
            rng.shuffle(ring)
            for name, other in zip(ring, (*ring[1:], ring[0]), strict=True):
                free = [relation for relation in RELATIONS if relation not in links[name]]
                links[name][rng.choice(free)] = other
        return links

    @cached_property
    def documents(self) -> tuple[Document, ...]:
        """One document for each fact, in random order."""
        found = [
            Document(title=name, text=f"The {relation} of {name} is {other}.")
            for name, linked in self.links.items()
            for relation, other in linked.items()
        ]
        Random(f"{self.key}/documents").shuffle(found)
        return tuple(found)

    @cached_property
    def _neighbours(self) -> Mapping[str, set[str]]:
        near: dict[str, set[str]] = {name: set() for name in self.names}
        for name, linked in self.links.items():
            for other in linked.values():
                near[name].add(other)
                near[other].add(name)
        return near

    def follow(self, start: str, relations: tuple[str, ...]) -> str | None:
        """Who is at the end of the relations from `start`; None if a fact is missing."""
        at: str | None = start
        for relation in relations:
            at = None if at is None else self.links.get(at, {}).get(relation)
        return at

    def distance(self, start: str, end: str) -> int:
        """The number of documents in the shortest chain of shared names between two people."""
        seen, border, steps = {start}, {start}, 0
        while end not in border:
            border = {other for name in border for other in self._neighbours[name]} - seen
            seen |= border
            steps += 1
            if not border:
                return len(self.names)
        return steps

    def draw(self, hops: int, rng: Random) -> Chain | None:
        """A question of `hops` whose answer is as many people away; None if none was found."""
        for _ in range(_ATTEMPTS):
            start = at = rng.choice(self.names)
            relations: tuple[str, ...] = ()
            for _ in range(hops):
                relation, at = rng.choice(list(self.links[at].items()))
                relations = (*relations, relation)
            if self.distance(start, at) == hops:
                return Chain(start, relations, at)
        return None


@lru_cache(maxsize=1_000)
def fact_world(seed: int, people: int, facts: int) -> FactWorld:
    """The world, shared by the task sets of this process."""
    return FactWorld(seed, people, facts)


def describe(start: str, relations: tuple[str, ...]) -> str:
    """`the mentor of the rival of Mavelin`, for the relations (rival, mentor)."""
    return "".join(f"the {relation} of " for relation in reversed(relations)) + start
