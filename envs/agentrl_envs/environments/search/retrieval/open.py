"""Opens the retrievers that the options name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from agentrl_envs.environments.search.facts import FactWorld, fact_world
from agentrl_envs.environments.search.options import SearchOptions
from agentrl_envs.environments.search.retrieval.bm25 import Bm25Retriever, in_memory
from agentrl_envs.environments.search.retrieval.cache import CachedRetriever
from agentrl_envs.environments.search.retrieval.corpus import Corpus
from agentrl_envs.environments.search.retrieval.index import open_index
from agentrl_envs.environments.search.retrieval.retriever import Retriever
from agentrl_envs.environments.search.retrieval.services import open_service


def open_retrievers(options: SearchOptions, facts: Sequence[FactWorld]) -> Mapping[str, Retriever]:
    """The retriever of each generated world by its key; of any other corpus, by an empty key.
    Raises `OptionError` for a corpus that cannot be read, an index that does not fit it, and a key
    that is not set."""
    if facts:
        return FactRetrievers(facts)
    chosen = options.retriever
    found: Retriever
    if chosen.kind == "bm25":
        found = open_index(Corpus.of(options.corpus), options.index)
    else:
        found = open_service(chosen)
    return {"": CachedRetriever(found, chosen.cache) if chosen.cache else found}


class FactRetrievers(Mapping[str, Retriever]):
    """The retrievers of generated worlds, each indexed when it is first used."""

    def __init__(self, facts: Sequence[FactWorld]) -> None:
        self._facts = {each.key: each for each in facts}

    def __getitem__(self, key: str) -> Retriever:
        facts = self._facts[key]
        return _indexed(facts.seed, facts.people, facts.facts)

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def __contains__(self, key: object) -> bool:
        return key in self._facts


@lru_cache(maxsize=1_000)
def _indexed(seed: int, people: int, facts: int) -> Bm25Retriever:
    return in_memory(fact_world(seed, people, facts).documents)
