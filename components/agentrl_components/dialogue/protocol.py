"""The interface between an episode's texts and the model's token ids.

A dialogue only appends: `opening` once, then `following` after each reply and `closing` after the
last one. Sampled ids are never decoded and encoded again; the text around them is encoded once.

    opening  reply  following  reply  following  reply  closing
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Dialogue(Protocol):
    """Encodes the texts of an episode as token ids, piece by piece.

    `reply` is always the list of token ids as sampled, including the stop token if one was
    sampled."""

    stop: tuple[int, ...]
    """Token ids that end a reply."""
    thinks: bool
    """Whether every prompt ends with the beginning of thoughts, so that a reply is an action only
    from `</think>` on."""

    def opening(self, instructions: str, observation: str) -> list[int]:
        """The prompt up to the first token of the first reply."""
        ...

    def following(self, reply: Sequence[int], observation: str) -> list[int]:
        """The ids between `reply` and the next reply. Closes `reply` first if it was cut at the
        token limit and therefore has no stop token."""
        ...

    def closing(self, reply: Sequence[int]) -> list[int]:
        """The ids that close the last reply of an episode; empty if it ends in its stop token."""
        ...

    def text(self, reply: Sequence[int]) -> str:
        """The reply as text without stop tokens, for display. It is never encoded again."""
        ...

    def action(self, text: str) -> str:
        """The part that the environment gets of the text of a reply that was not restricted to
        admissible actions: all of it, but for thoughts."""
        ...

    def encode_action(self, action: str) -> list[int]:
        """The ids of an admissible action, without a stop token."""
        ...
