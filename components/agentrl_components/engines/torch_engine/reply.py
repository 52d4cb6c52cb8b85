"""The state of one reply while the torch engine samples it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from agentrl_components.engines.action_trie import Node, Trie
from agentrl_components.engines.engine import Generation, Request, Stop, mixed, stop_set

NOTHING = object()
"""The history of a session without tokens."""


@dataclass(slots=True)
class Session:
    """The cache entry of one episode."""

    slot: int
    cached: int = 0
    """Tokens whose keys and values are in the cache."""
    history: object = NOTHING
    """Identifies these tokens: sessions have the same object only if all of them are the same."""

    def forget(self) -> None:
        """Have nothing cached any more."""
        self.cached, self.history = 0, NOTHING


@dataclass(slots=True)
class PendingReply:
    """A reply that is being sampled. It is one row of the engine's batch."""

    request: Request
    session: Session
    result: asyncio.Future[Generation]
    version: int
    """Policy version that samples the next token."""
    fresh: list[int]
    """Tokens that are not cached yet; the next token is sampled from the last one."""
    trie: Trie | None
    """The admissible replies. None: any reply."""
    node: Node | None
    """Position in the trie."""
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    sampled: list[bool] = field(default_factory=list)
    allowed: list[tuple[int, ...]] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    """Policy version that sampled each token."""
    stop: frozenset[int] = field(init=False)
    """Tokens that end it."""

    def __post_init__(self) -> None:
        self.stop = stop_set(self.request.sampling.stop)

    def choices(self) -> tuple[int, ...] | None:
        """Tokens that may come next. None: the whole vocabulary."""
        if self.trie is None or self.node is None:
            return None
        return self.trie.allowed(self.node)

    def go_on(self, version: int) -> None:
        """Sample the next token with weights of `version`; nothing is cached for them."""
        self.version = version
        self.fresh = [*self.request.ids, *self.ids]

    def start_again(self, version: int) -> None:
        """Drop the tokens sampled so far, and sample the whole reply with weights of `version`."""
        for tokens in (self.ids, self.logprobs, self.sampled, self.allowed, self.versions):
            tokens.clear()
        self.node = None if self.trie is None else self.trie.root
        self.go_on(version)
        self.append_forced()

    def append_sampled(self, token: int, logprob: float) -> None:
        """Append a sampled token, and the tokens after it that leave no choice."""
        choices = self.choices()
        self.session.cached += len(self.fresh)
        self.fresh = [token]
        self._append(token, logprob, choices, sampled=True)
        self.append_forced()

    def append_forced(self) -> None:
        """Append the tokens that leave no choice, unless the reply has ended."""
        if self.trie is None or self.node is None or self.result.done():
            return
        for token in self.trie.forced(self.node):
            self.fresh.append(token)
            self._append(token, 0.0, (token,), sampled=False)
            if self.result.done():
                return

    def _append(
        self, token: int, logprob: float, choices: tuple[int, ...] | None, *, sampled: bool
    ) -> None:
        """Append one token and set the result if the reply has ended."""
        self.ids.append(token)
        self.logprobs.append(logprob)
        self.sampled.append(sampled)
        self.versions.append(self.version)
        if choices is not None and self.trie is not None and self.node is not None:
            self.allowed.append(choices)
            self.node = self.trie.advance(self.node, token)
        sampling = self.request.sampling
        stopped = token in self.stop
        if self.result.done() or not (stopped or len(self.ids) >= sampling.max_tokens):
            return
        self.result.set_result(
            Generation(
                ids=tuple(self.ids),
                logprobs=tuple(self.logprobs),
                sampled=tuple(self.sampled),
                allowed=None if self.trie is None else tuple(self.allowed),
                stop=Stop.STOP if stopped else Stop.LENGTH,
                version=self.versions[0],
                versions=mixed(self.versions),
            )
        )
