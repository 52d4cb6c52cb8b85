"""Dialogue of plain texts between separator tokens, for tiny models with a word vocabulary.

    <obs> instructions observation <act> reply <end> <obs> observation <act> reply <end>

Texts are split at white space and looked up word by word. This gives the same ids as the tokenizer
of `word_tokenizer` and is much faster. A separator inside a text becomes an unknown word, so an
observation cannot forge the boundary of a turn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from agentrl_components.dialogue.text_cache import TextCache
from agentrl_components.errors import ModelError

PAD, UNKNOWN, OBSERVE, ACT, END = SPECIALS = ("<pad>", "<unk>", "<obs>", "<act>", "<end>")
"""The separators, in the order of their ids."""

CACHED_TOKENS = 1 << 21
"""Tokens of the texts in the cache: tens of thousands of observations of small environments, which
repeat them. A token takes about 15 bytes with its text, as its id is one of the vocabulary's
objects, so this is about 30 MiB."""


class PlainDialogue:
    """`<obs> text <act> reply <end>`, repeated."""

    def __init__(self, ids: Mapping[str, int], name: str = "") -> None:
        """Args:
            ids: id of every word and separator.
            name: name of the model, for error messages.

        Raises:
            ModelError: a separator is missing.
        """
        missing = [token for token in SPECIALS if token not in ids]
        if missing:
            raise ModelError(
                f"tokenizer of {name or 'the model'} lacks {' '.join(missing)}, "
                "which `template: plain` needs; set `template: chat` or `template: react`"
            )
        self._unknown, self._observe, self._act, self._end = (ids[token] for token in SPECIALS[1:])
        self._words = {index: word for word, index in ids.items()}
        self._ids = {word: index for word, index in ids.items() if word not in SPECIALS}
        self.stop: tuple[int, ...] = (self._end,)
        self.thinks = False
        self._encode = TextCache(self._look_up, CACHED_TOKENS)

    def _look_up(self, text: str) -> tuple[int, ...]:
        ids, unknown = self._ids, self._unknown
        return tuple(ids.get(word, unknown) for word in text.split())

    def opening(self, instructions: str, observation: str) -> list[int]:
        return [self._observe, *self._encode(instructions), *self._encode(observation), self._act]

    def following(self, reply: Sequence[int], observation: str) -> list[int]:
        return [*self.closing(reply), self._observe, *self._encode(observation), self._act]

    def closing(self, reply: Sequence[int]) -> list[int]:
        return [] if reply and reply[-1] == self._end else [self._end]

    def text(self, reply: Sequence[int]) -> str:
        return " ".join(self._words.get(index, UNKNOWN) for index in reply if index != self._end)

    def action(self, text: str) -> str:
        return text

    def encode_action(self, action: str) -> list[int]:
        return list(self._encode(action))


def has_separators(words: Collection[str]) -> bool:
    """Whether the vocabulary contains all separators."""
    return set(SPECIALS) <= set(words)
