"""A tokenizer that keeps template pieces and texts of others apart.

The pieces of a template may contain special tokens. Texts of others may not: an observation with
the text `<|im_end|>` must not end its turn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentrl_components.dialogue.text_cache import TextCache

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

CACHED_TOKENS = 1 << 18
"""Tokens of the texts in the cache. A token takes about 45 bytes with its text, so this is about
12 MiB."""


class Codec:
    """Encodes and decodes texts, without the special tokens that a tokenizer adds by default."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self.special: dict[str, int] = {
            str(token): index
            for index, token in tokenizer.added_tokens_decoder.items()
            if token.special and len(str(token)) > 1
        }
        """Ids of the special tokens by their text."""
        longest_first = sorted(self.special, key=len, reverse=True)
        self._spelled = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._encode = TextCache(self._encode_uncached, CACHED_TOKENS)

    def _encode_uncached(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def encode(self, text: str) -> tuple[int, ...]:
        """The ids of a text. Special tokens in it are encoded as special tokens."""
        return self._encode(text)

    def escaped(self, text: str) -> str:
        """`text` without surrounding white space, and with a space after the first character of
        every special token in it, so that it is encoded as ordinary text."""
        return self._spelled.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text.strip())

    def special_at(self, text: str) -> str | None:
        """The special token at the beginning of `text`, or None."""
        found = self._spelled.match(text)
        return found[0] if found else None

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids, including special tokens."""
        text = self.tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return str(text)
