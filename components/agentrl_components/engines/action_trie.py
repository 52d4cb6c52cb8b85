"""Constrained decoding: which tokens may come next if only certain replies are admissible.

The admissible actions of a turn, each followed by the stop token, form a trie of tokens. At a node
with one child the token is forced, so nothing is sampled there.

    trie = trie_of(((7, 8), (7, 9)), stop=2)
    trie.forced(trie.root)          # (7,)
    trie.allowed(trie.at((7,)))     # (8, 9)
    trie.forced(trie.at((7, 9)))    # (2,)
"""

from __future__ import annotations

from collections.abc import Sequence

from agentrl_components.engines.action_cache import ActionCache
from agentrl_components.engines.engine import Request
from agentrl_components.errors import EngineError

Node = dict[int, "Node"]
"""Children by token id. A node without children is the end of a reply."""


class Trie:
    """The trie of admissible replies. Immutable, so it can be shared."""

    __slots__ = ("choice_depth", "root", "stop")

    def __init__(self, actions: Sequence[Sequence[int]], stop: int) -> None:
        """
        Args:
            actions: token ids of replies without a stop token. If one is a prefix of another, the
                choice between them includes `stop`.

        Raises:
            ValueError: there is no action, an action is empty, or one contains `stop`.
        """
        if not actions:
            raise ValueError("an admissible set needs at least one action")
        self.stop = stop
        """Token id that ends every reply."""
        self.root: Node = {}
        """Node at the beginning of a reply."""
        for action in actions:
            if not action:
                raise ValueError("an admissible action needs at least one token")
            if stop in action:
                raise ValueError(f"admissible action {list(action)} holds the stop token {stop}")
            node = self.root
            for token in action:
                node = node.setdefault(token, {})
            node.setdefault(stop, {})
        replies = sorted([*action, stop] for action in actions)
        self.choice_depth = max(map(_parting, replies, replies[1:]), default=0)
        """Largest number of tokens of a reply up to and including the last that is chosen."""

    def at(self, prefix: Sequence[int]) -> Node:
        """The node after `prefix`, the reply so far. Raises `ValueError` if not admissible."""
        node = self.root
        for token in prefix:
            node = self.advance(node, token)
        return node

    def advance(self, node: Node, token: int) -> Node:
        """The node after `token`. Raises `ValueError` if it is not allowed at `node`."""
        try:
            return node[token]
        except KeyError:
            message = f"token {token} is not admissible here; allowed: {self.allowed(node)}"
            raise ValueError(message) from None

    def allowed(self, node: Node) -> tuple[int, ...]:
        """Token ids that may come next, ascending. Empty at the end of a reply."""
        return tuple(sorted(node))

    def forced(self, node: Node) -> tuple[int, ...]:
        """The token ids that follow `node` without a choice, up to and including the stop token."""
        run = []
        while len(node) == 1:
            ((token, node),) = node.items()
            run.append(token)
        return tuple(run)


def chooses(node: Node) -> bool:
    """Whether there is a choice at `node` or after it."""
    while len(node) == 1:
        (node,) = node.values()
    return len(node) > 1


def _parting(one: Sequence[int], other: Sequence[int]) -> int:
    """Tokens up to and including the first that differs; 0 for equal replies."""
    return next((i + 1 for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)


trie_of = ActionCache(Trie)
"""The trie of actions and their stop token, cached. Raises what `Trie` raises."""


def open_trie(request: Request) -> Trie:
    """The trie of a request. Raises `EngineError` if its admissible set cannot be used."""
    if not request.sampling.stop:
        raise EngineError(f"session {request.session}: admissible replies need a stop token")
    try:
        return trie_of(tuple(map(tuple, request.admissible or ())), request.sampling.stop[0])
    except ValueError as error:
        raise EngineError(f"session {request.session}: {error}") from error
