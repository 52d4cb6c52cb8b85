"""An admissible reply while vLLM samples it."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentrl_components.engines.action_trie import Trie
from agentrl_components.engines.engine import Generation, Request, Stop, mixed


@dataclass(slots=True)
class Draft:
    """An admissible reply that is being sampled."""

    request: Request
    trie: Trie
    version: int
    """Version of the weights that sample the next token."""
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    allowed: list[tuple[int, ...]] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    """Version of the weights at each token."""
    stop: Stop | None = None
    """Why it ended. None: it has not ended."""

    def choices(self) -> tuple[int, ...]:
        """Token ids that may come next."""
        return self.trie.allowed(self.trie.at(self.ids))

    def generation(self) -> Generation:
        """The reply, once it has ended."""
        assert self.stop is not None
        return Generation(
            ids=tuple(self.ids),
            logprobs=tuple(self.logprobs),
            sampled=tuple(len(choices) > 1 for choices in self.allowed),
            allowed=tuple(self.allowed),
            stop=self.stop,
            version=self.versions[0],
            versions=mixed(self.versions),
        )

    def force(self) -> None:
        """Append the tokens that leave no choice, unless the reply has ended."""
        for token in self.trie.forced(self.trie.at(self.ids)):
            if self.stop is None:
                self.append(token, 0.0, (token,))

    def append(self, token: int, logprob: float, choices: tuple[int, ...]) -> None:
        """Append a token, and set `stop` if it ends the reply."""
        self.ids.append(token)
        self.logprobs.append(logprob)
        self.allowed.append(choices)
        self.versions.append(self.version)
        if token in self.request.sampling.stop:
            self.stop = Stop.STOP
        elif len(self.ids) >= self.request.sampling.max_tokens:
            self.stop = Stop.LENGTH
