"""The terse form of deep search: a closed vocabulary and listed actions, for small models.

    ask mavelin rival mentor                 search mavelin rival, search mavelin mentor
    mavelin rival torbin ; mavelin cousin eldar
                                             search torbin rival, ..., answer torbin, answer eldar

A question is its chain: the person, then the relations to follow. A document is its fact. Actions
are a search for a person that was seen with a relation of the question, and an answer with a person
that was found. A search that was made is not offered again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentrl_envs.environments.search.facts import RELATIONS, Chain, FactWorld
from agentrl_envs.environments.search.payload import Question, chain_question
from agentrl_envs.environments.search.retrieval.retriever import Document
from agentrl_envs.environments.search.text_form import Answer, Command, Progress, Refused, Search
from agentrl_envs.errors import TaskError

WORDS = ("ask", "search", "answer", "cannot", "nothing", "right", "wrong", ";")
REFUSAL = "cannot"


class TerseForm:
    """The `terse` text form, for the generated corpus."""

    def __init__(self, worlds: Mapping[str, FactWorld]) -> None:
        """`worlds`: by key. Their names are the same."""
        self._worlds = worlds
        self._spelled = {n.lower(): n for world in worlds.values() for n in world.names}

    def instructions(self) -> str:
        return ""

    def vocabulary(self) -> tuple[str, ...]:
        return (*WORDS, *RELATIONS, *self._spelled)

    def opening(self, question: Question) -> str:
        return " ".join(("ask", *question.chain)).lower()

    def admissible(self, progress: Progress) -> tuple[str, ...]:
        if progress.over:
            return ()
        first, relations = progress.question.chain[0], progress.question.chain[1:]
        people = dict.fromkeys([first, *(name for doc in progress.found for name in _people(doc))])
        searches = (
            f"search {name.lower()} {relation}"
            for name in people
            for relation in dict.fromkeys(relations)
        )
        made = {f"search {query}" for query in progress.searches}
        answers = (f"answer {name.lower()}" for name in people if name != first)
        return (*(each for each in searches if each not in made), *answers)

    def parse(self, reply: str, progress: Progress) -> Command:
        action = " ".join(reply.lower().split())
        if action not in self.admissible(progress):
            return Refused(REFUSAL)
        verb, _, rest = action.partition(" ")
        return Search(rest) if verb == "search" else Answer(self._spelled[rest])

    def results(self, documents: Sequence[Document]) -> str:
        return " ; ".join(" ".join(_fact(each)).lower() for each in documents) or "nothing"

    def verdict(self, correct: bool, guesses_on: bool) -> str:
        return "right" if correct else "wrong"

    def achieved(self, progress: Progress, answer: str) -> tuple[str, ...]:
        """The chain by which the answer was found, if there is a question for it that belongs to
        the split of this one: the goal `mavelin rival` of an answer `torbin`."""
        world, start = self._worlds[progress.question.world], progress.question.chain[0]
        relations = _chain(start, answer, progress.found)
        if relations is None or world.distance(start, answer) != len(relations):
            return ()
        asked = chain_question(world, Chain(start, relations, answer))
        if asked.split != progress.question.split:
            return ()
        return (" ".join((start, *relations)).lower(),)

    def relabel(self, opening: str, goal: str) -> str:
        if not opening.startswith("ask "):
            raise TaskError(
                f"search: {opening[:80]!r} is no first observation; give the one of an episode"
            )
        return f"ask {goal}"


def _fact(document: Document) -> tuple[str, str, str]:
    """Person, relation and other person of `The rival of Mavelin is Torbin.`"""
    _, relation, _, name, _, other = document.text.rstrip(".").split()
    return name, relation, other


def _people(document: Document) -> tuple[str, str]:
    name, _, other = _fact(document)
    return name, other


def _chain(start: str, end: str, found: dict[Document, None]) -> tuple[str, ...] | None:
    """The shortest chain of relations from `start` to `end` through the facts found."""
    paths: dict[str, tuple[str, ...]] = {start: ()}
    grown = True
    while grown and end not in paths:
        facts = [_fact(each) for each in found]
        new = {o: (*paths[n], r) for n, r, o in facts if n in paths and o not in paths}
        paths, grown = {**new, **paths}, bool(new)
    return paths.get(end)
