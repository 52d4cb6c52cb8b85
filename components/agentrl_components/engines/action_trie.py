"""Which token may come next, when only some replies may be given.

The admissible actions of a turn, each followed by the stop token, make a tree of tokens. Where a
node has one child there is nothing to sample: that token is forced.

    trie = trie_of(((7, 8), (7, 9)), stop=2)
    trie.forced(trie.root)          # (7,)
    trie.allowed(trie.at((7,)))     # (8, 9)
    trie.forced(trie.at((7, 9)))    # (2,)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

Node = dict[int, "Node"]
"""Children by token id. A node without children is the end of a reply."""

REMEMBERED_SETS = 16384
"""How many admissible sets keep their trie."""


class Trie:
    """The tree of admissible replies. Never changed once made, so it can be shared."""

    __slots__ = ("root", "stop")

    def __init__(self, actions: Sequence[Sequence[int]], stop: int) -> None:
        """`actions`: replies without a stop token; repeats are allowed. An action that is the
        beginning of another is told from it by `stop`, which is then a choice.

        Raises `ValueError` when there is no action, an action is empty or one holds `stop`.
        """
        if not actions:
            raise ValueError("an admissible set needs at least one action")
        self.stop = stop
        """The token that ends every reply."""
        self.root: Node = {}
        """Where a reply begins."""
        for action in actions:
            if not action:
                raise ValueError("an admissible action needs at least one token")
            if stop in action:
                raise ValueError(f"admissible action {list(action)} holds the stop token {stop}")
            node = self.root
            for token in action:
                node = node.setdefault(token, {})
            node.setdefault(stop, {})

    def at(self, prefix: Sequence[int]) -> Node:
        """The node that `prefix`, the reply so far, leads to. Raises `ValueError` off the tree."""
        node = self.root
        for token in prefix:
            node = self.advance(node, token)
        return node

    def advance(self, node: Node, token: int) -> Node:
        """The node after `token`. Raises `ValueError` when it is not allowed at `node`."""
        try:
            return node[token]
        except KeyError:
            message = f"token {token} is not admissible here; allowed: {self.allowed(node)}"
            raise ValueError(message) from None

    def allowed(self, node: Node) -> tuple[int, ...]:
        """Tokens that may come next, in ascending order. Empty at the end of a reply."""
        return tuple(sorted(node))

    def forced(self, node: Node) -> tuple[int, ...]:
        """The tokens that follow without a choice, the stop token included when they reach it."""
        run = []
        while len(node) == 1:
            ((token, node),) = node.items()
            run.append(token)
        return tuple(run)


@lru_cache(maxsize=REMEMBERED_SETS)
def trie_of(actions: tuple[tuple[int, ...], ...], stop: int) -> Trie:
    """The trie of an admissible set, made once. Raises what `Trie` raises."""
    return Trie(actions, stop)
