"""A tokenizer between trusted pieces and foreign texts.

The pieces around a turn are the template's own and may hold special tokens. An observation may not:
one that spells `<|im_end|>` must not end the turn it stands in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

REMEMBERED_TEXTS = 4096
"""How many texts keep their ids."""


class Codec:
    """Text to ids and back, without the special tokens a tokenizer would add by itself."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self.special: dict[str, int] = {
            str(token): index
            for index, token in tokenizer.added_tokens_decoder.items()
            if token.special and len(str(token)) > 1
        }
        """Special tokens by their text."""
        longest_first = sorted(self.special, key=len, reverse=True)
        self._spelled = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._encode = lru_cache(maxsize=REMEMBERED_TEXTS)(self._ask)

    def _ask(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def encode(self, text: str) -> tuple[int, ...]:
        """Ids of a text, in which special tokens count as such."""
        return self._encode(text)

    def foreign(self, text: str) -> str:
        """`text` as it may stand in a turn: without white space around it, and with a space after
        the first character of every special token that it spells."""
        return self._spelled.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text.strip())

    def special_at(self, text: str) -> str | None:
        """The special token that `text` begins with, if it does."""
        found = self._spelled.match(text)
        return found[0] if found else None

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, special tokens shown."""
        text = self.tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return str(text)
