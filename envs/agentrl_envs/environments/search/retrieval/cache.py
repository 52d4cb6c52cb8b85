"""A cache of results in front of a retriever."""

from __future__ import annotations

from functools import lru_cache

from agentrl_envs.environments.search.retrieval.retriever import Document, Retriever


class CachedRetriever:
    """Keeps the results of the queries that were used last. Errors are not kept. The episodes of a
    group ask the same questions, so that many of their queries are equal."""

    def __init__(self, retriever: Retriever, size: int) -> None:
        self._search = lru_cache(maxsize=size)(retriever.search)

    def search(self, query: str, count: int) -> tuple[Document, ...]:
        return self._search(" ".join(query.split()), count)
