"""BM25 over an index that is in memory or memory-mapped (`bm25s`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import bm25s
import numpy as np

from agentrl_envs.environments.search.retrieval.retriever import Document

K1, B = 0.9, 0.4
"""Parameters of Pyserini's BM25, the lexical retriever of Search-R1 and of AgentGym."""


class Documents(Protocol):
    """Documents by position."""

    def __getitem__(self, position: int, /) -> Document: ...


class Bm25Retriever:
    """Ranks by BM25; of equal scores, the document that comes first in the corpus is first."""

    def __init__(self, index: Any, documents: Documents) -> None:
        self._index = index
        self._documents = documents

    def search(self, query: str, count: int) -> tuple[Document, ...]:
        """At most `count` documents that share a word with the query."""
        known = [word for word in words([query])[0] if word in self._index.vocab_dict]
        if not known:
            return ()
        scores_D = self._index.get_scores(known)
        return tuple(self._documents[int(position)] for position in _best(scores_D, count))


def words(texts: Sequence[str]) -> list[list[str]]:
    """The words of each text that are indexed: lower case, two characters or more, no English
    stop words."""
    found: list[list[str]] = bm25s.tokenize(
        list(texts), stopwords="english", return_ids=False, show_progress=False
    )
    return found


def build(texts: Iterable[str]) -> Any:
    """The BM25 index of the texts."""
    index = bm25s.BM25(k1=K1, b=B, backend="numpy", csc_backend="numpy")
    index.index(words(list(texts)), show_progress=False)
    return index


def in_memory(documents: Sequence[Document]) -> Bm25Retriever:
    """A retriever over a few documents."""
    return Bm25Retriever(build(f"{each.title} {each.text}" for each in documents), documents)


def _best(scores_D: Any, count: int) -> Any:
    """Positions of the `count` largest positive scores. Ties are broken by position and not by the
    sort, whose order depends on the processor."""
    positions = np.flatnonzero(scores_D > 0)
    if len(positions) > count:
        values = scores_D[positions]
        least = np.partition(values, len(values) - count)[len(values) - count]
        positions = positions[values >= least]
    order = np.lexsort((positions, -scores_D[positions]))
    return positions[order][:count]
