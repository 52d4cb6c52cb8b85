"""A tokenizer that keeps template pieces and texts of others apart.

The pieces of a template may contain special tokens. Texts of others may not: an observation with
the text `<|im_end|>` must not end its turn.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
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
        self._spelled = _any_of(self.special)
        self._forbidden = self._spelled
        self._encode = TextCache(self._encode_uncached, CACHED_TOKENS)

    def _encode_uncached(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def encode(self, text: str) -> tuple[int, ...]:
        """The ids of a text. Special tokens in it are encoded as special tokens."""
        return self._encode(text)

    def forbid(self, pieces: str, allowed: Collection[str]) -> None:
        """Have `escaped` treat the tokens that a template's `pieces` contain like special tokens,
        except for the texts `allowed`. Some tokenizers (DeepSeek-R1's) do not call the tokens of
        their roles special."""
        added = map(str, self.tokenizer.added_tokens_decoder.values())
        roles = {one for one in added if len(one) > 1 and one.strip() and one in pieces}
        self._forbidden = _any_of({*self.special, *(roles - set(allowed))})

    def escaped(self, text: str) -> str:
        """`text` without surrounding white space, and with a space after the first character of
        every special token in it, so that it is encoded as ordinary text."""
        return self._forbidden.sub(_parted, text.strip())

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


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """Matches any of the texts, the longest that is there; nothing if there are none."""
    longest_first = sorted(texts, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def _parted(found: re.Match[str]) -> str:
    """What was found, with a space after its first character."""
    return f"{found[0][0]} {found[0][1:]}"
