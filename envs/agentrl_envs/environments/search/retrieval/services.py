"""HTTP search services: their requests and answers.

| kind | request | documents |
|---|---|---|
| search-r1 | POST `{"queries", "topk", "return_scores"}` | `result[0][i].document.contents` |
| opensearch | POST `{"query": {"multi_match"}, "size"}` | `hits.hits[i]._source` |
| web | GET of a URL template | a list at `results` |
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from agentrl_envs.environments.search.options import COUNT, KEY, QUERY, RetrieverOptions
from agentrl_envs.environments.search.retrieval.http import Service
from agentrl_envs.environments.search.retrieval.retriever import Document, Retriever
from agentrl_envs.errors import OptionError


def open_service(options: RetrieverOptions) -> Retriever:
    """The retriever of a service. Raises `OptionError` if its key is not set."""
    key = os.environ.get(options.key_env, "") if options.key_env else ""
    if options.key_env and not key:
        raise OptionError(
            f"search.options.retriever.key_env: the variable {options.key_env} is not set where "
            "the environment runs; set it (on Kubernetes by environments[].secretEnv)"
        )
    kinds: dict[str, Callable[[RetrieverOptions, str], Retriever]] = {
        "search-r1": SearchR1,
        "opensearch": OpenSearch,
        "web": WebSearch,
    }
    return kinds[options.kind](options, key)


class SearchR1:
    """A retriever of Search-R1 (`/retrieve`)."""

    def __init__(self, options: RetrieverOptions, key: str) -> None:
        self._url = options.url
        self._service = Service(options, key)

    def search(self, query: str, count: int) -> tuple[Document, ...]:
        body = {"queries": [query], "topk": count, "return_scores": True}
        answer = self._service.post(self._url, body)
        with self._service.expect("result[0][i].document.contents"):
            return tuple(_passage(each) for each in answer["result"][0][:count])


class OpenSearch:
    """OpenSearch or Elasticsearch: `_search` of an index, by words of title and text."""

    def __init__(self, options: RetrieverOptions, key: str) -> None:
        self._options = options
        self._service = Service(options, key)

    def search(self, query: str, count: int) -> tuple[Document, ...]:
        own = self._options
        words = {"query": query, "fields": [own.title, own.text]}
        body = {"query": {"multi_match": words}, "size": count}
        answer = self._service.post(own.url, body)
        with self._service.expect(f"hits.hits[i]._source with {own.title} and {own.text}"):
            sources = [each["_source"] for each in answer["hits"]["hits"][:count]]
            return tuple(_fields(each, own) for each in sources)


class WebSearch:
    """Any search API that answers a GET with JSON."""

    def __init__(self, options: RetrieverOptions, key: str) -> None:
        self._options = options
        self._key = key
        self._service = Service(options, "" if KEY in options.url else key)

    def search(self, query: str, count: int) -> tuple[Document, ...]:
        own = self._options
        values = {QUERY: query, COUNT: str(count), KEY: self._key}
        answer = self._service.get(_filled(own.url, values))
        with self._service.expect(f"a list at {own.results} of {own.title} and {own.text}"):
            for part in own.results.split("."):
                answer = answer[part]
            return tuple(_fields(each, own) for each in answer[:count])


def _filled(template: str, values: dict[str, str]) -> str:
    """The template with quoted values; a value is never read as a template."""
    for mark, value in values.items():
        template = template.replace(mark, quote(value, safe="").replace("{", "%7B"))
    return template


def _passage(found: Any) -> Document:
    document = found.get("document", found)
    title, _, text = _text(document["contents"]).partition("\n")
    return Document(title=title, text=text)


def _fields(found: Any, options: RetrieverOptions) -> Document:
    title = found[options.title] if options.title else ""
    return Document(title=_text(title), text=_text(found[options.text]))


def _text(found: Any) -> str:
    """What was found, as text without halves of surrogate pairs. An extract that ends in the middle
    of an emoji has one, and an observation must not."""
    return str(found).encode(errors="replace").decode()
