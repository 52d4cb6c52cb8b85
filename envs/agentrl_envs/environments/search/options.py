"""Options of the `search` environment."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from agentrl_envs.environments.search.facts import MOST_HOPS, RELATIONS

Dataset = Literal["nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle"]
QUERY, COUNT, KEY = "{query}", "{count}", "{key}"
ROOM = 15
"""People for each hop of a question, so that enough of them are that many people apart."""

_Text = Annotated[str, StringConstraints(max_length=2_000)]
_CONFIG = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class QuestionFile(BaseModel):
    """A file of questions in the form in which its data set is published, or in FlashRAG's."""

    model_config = _CONFIG

    dataset: Dataset
    path: Annotated[str, StringConstraints(min_length=1, max_length=2_000)]
    split: Literal["train", "heldout"]


class RetrieverOptions(BaseModel):
    """The service that answers searches."""

    model_config = _CONFIG

    kind: Literal["bm25", "search-r1", "opensearch", "web"] = "bm25"
    """bm25: an index of the corpus in this process. The others are HTTP services."""
    url: _Text = ""
    """Of a service. search-r1: the address of `/retrieve`; opensearch: of an index's `_search`;
    web: with `{query}`, `{count}` and `{key}` where their values go, below the host."""
    key_env: Annotated[str, StringConstraints(pattern=r"^(SEARCH_[A-Z0-9_]{1,100})?$")] = ""
    """Environment variable with the key of the service; its name starts with `SEARCH_`."""
    key_header: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{0,80}$")] = "Authorization"
    """Header that carries the key. `Authorization` is sent as `Bearer KEY`."""
    results: _Text = "results"
    """web: path of the list of results in the answer, such as `web.results`."""
    title: _Text = "title"
    """opensearch, web: field of a result with its title."""
    text: _Text = "text"
    """opensearch, web: field of a result with its text."""
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 10.0
    """Timeout of one request."""
    attempts: Annotated[int, Field(ge=1, le=20)] = 3
    """Requests until a search is given up, and with it the session."""
    per_second: Annotated[float, Field(ge=0, le=100_000)] = 0.0
    """Largest rate of requests of this process. 0: no limit."""
    cache: Annotated[int, Field(ge=0, le=10_000_000)] = 10_000
    """Number of queries whose results are kept. 0: none."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.kind == "bm25":
            if self.url or self.key_env:
                raise ValueError("url and key_env belong to a service; set kind, or remove them")
            return self
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url: {self.kind} needs the http(s) address of the service")
        if parts.username or parts.password:
            raise ValueError("url: holds a password; use key_env")
        if any(mark in parts.netloc for mark in "{}"):
            raise ValueError("url: the host is fixed; write {query} and {key} after it")
        if self.kind == "web" and QUERY not in self.url:
            raise ValueError("url: says nowhere where the query goes; write {query} there")
        if KEY in self.url and not self.key_env:
            raise ValueError("key_env: url has a {key}; name the variable that holds it")
        return self


class SearchOptions(BaseModel):
    """Options of the `search` environment."""

    model_config = _CONFIG

    corpus: Annotated[tuple[_Text, ...], Field(max_length=1_000)] = ()
    """JSON Lines files of documents, as paths or file:// URLs: `title` and `text`, or `contents`
    whose first line is the title. Empty: a generated corpus of linked facts."""
    index: _Text = ""
    """Folder of the BM25 index, built there once. Empty: in a cache, by the hash of the corpus."""
    questions: Annotated[tuple[QuestionFile, ...], Field(max_length=100)] = ()
    """Files of questions: `dataset`, `path` and `split` (train or heldout). Empty: generated."""
    items: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(max_length=300_000)] = ()
    """AgentGym's item ids: only these questions of the files, in this order. Empty: all."""
    retriever: RetrieverOptions = RetrieverOptions()
    """Where searches go: `kind`, `url`, `key_env` and limits; docs/environments/search.md."""
    top_k: Annotated[int, Field(ge=1, le=50)] = 3
    """Documents that a search returns."""
    text: Literal["agentgym", "terse"] = "agentgym"
    """AgentGym's tags, or a small closed vocabulary for small models (generated corpus only)."""
    compat: Literal["none", "agentgym"] = "none"
    """agentgym: a wrong answer does not end the episode, and upstream's parsing of replies."""
    reward: Literal["em", "f1"] = "em"
    """Score of an answer: exact match, or F1 of its words."""
    heldout: Annotated[int, Field(ge=1, le=10_000)] = 500
    """Generated: number of held-out questions."""
    turn_limit: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Turns after which the environment truncates an episode."""
    world: Annotated[int, Field(ge=0, lt=2**31)] = 0
    """Generated: seed of the facts."""
    worlds: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Generated: number of corpora with facts of their own, dealt in turn."""
    people: Annotated[int, Field(ge=10, le=3_000)] = 400
    """Generated: number of people."""
    facts: Annotated[int, Field(ge=1, le=len(RELATIONS))] = 3
    """Generated: number of facts about each person."""
    hops: Annotated[tuple[int, ...], Field(min_length=1, max_length=MOST_HOPS)] = (1, 2, 3, 4)
    """Generated: numbers of facts that questions link, in equal shares."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(set(self.hops)) < len(self.hops) or not set(self.hops) <= {1, 2, 3, MOST_HOPS}:
            raise ValueError(f"hops: each of 1 to {MOST_HOPS} at most once; got {list(self.hops)}")
        if self.generated and self.people < ROOM * max(self.hops):
            raise ValueError(
                f"people: questions of {max(self.hops)} hops need at least "
                f"{ROOM * max(self.hops)}; got {self.people}"
            )
        if self.text == "terse" and (not self.generated or self.retriever.kind != "bm25"):
            raise ValueError("text: terse has words for the generated corpus only; use agentgym")
        if self.text == "terse" and self.compat == "agentgym":
            raise ValueError("compat: agentgym is its own text; use text agentgym")
        if self.items and not self.questions:
            raise ValueError("items: AgentGym's ids are rows of files; give questions")
        if self.questions and not self.corpus and self.retriever.kind == "bm25":
            raise ValueError("corpus: the questions are about none; give files, or a retriever")
        if not self.questions and (self.corpus or self.retriever.kind != "bm25"):
            raise ValueError("questions: there are none about this corpus; give files of questions")
        return self

    @property
    def generated(self) -> bool:
        """Whether corpus and questions are generated."""
        return not self.questions
