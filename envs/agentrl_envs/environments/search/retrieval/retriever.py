"""What a retriever is: it returns the documents that fit a query best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One passage."""

    title: str
    text: str


class QueryError(Exception):
    """A service that answers other queries refuses this one, such as an empty or a long one. The
    agent may search for something else."""


class Retriever(Protocol):
    """Finds documents. Thread-safe: the sessions of a task set share one."""

    def search(self, query: str, count: int) -> tuple[Document, ...]:
        """At most `count` documents, best first; the same query has the same result. Raises
        `SessionError` if the service behind it fails, and `QueryError` if it refuses the query."""
        ...
