"""Bare texts between separator tokens, for models whose vocabulary is the environment's own words.

    <obs> instructions observation <act> reply <end> <obs> observation <act> reply <end>

A text is split at white space and looked up word by word, which gives the ids that the tokenizer
of `words.word_tokenizer` gives and is far quicker than asking it. A separator that stands in a text
is read as an unknown word, so no observation can forge the boundary of a turn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from agentrl_components.errors import ModelError

PAD, UNKNOWN, OBSERVE, ACT, END = SPECIALS = ("<pad>", "<unk>", "<obs>", "<act>", "<end>")
"""The separators, in the order of their ids."""

REMEMBERED_TEXTS = 65536
"""How many texts keep their ids. Observations of small worlds come again and again."""


class PlainDialogue:
    """`<obs> text <act> reply <end>`, over and over."""

    def __init__(self, ids: Mapping[str, int], name: str = "") -> None:
        """`ids`: of every word, the separators among them. `name`: of the model, for errors.
        Raises `ModelError` where a separator is not among them."""
        missing = [token for token in SPECIALS if token not in ids]
        if missing:
            raise ModelError(
                f"tokenizer of {name or 'the model'} lacks {' '.join(missing)}, "
                "which `template: plain` needs; say `template: chat` or `template: react`"
            )
        self._unknown, self._observe, self._act, self._end = (ids[token] for token in SPECIALS[1:])
        self._words = {index: word for word, index in ids.items()}
        self._ids = {word: index for word, index in ids.items() if word not in SPECIALS}
        self.stop: tuple[int, ...] = (self._end,)
        self._encode = lru_cache(maxsize=REMEMBERED_TEXTS)(self._look_up)

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

    def encode_action(self, action: str) -> list[int]:
        return list(self._encode(action))


def speaks_plain(words: Collection[str]) -> bool:
    """Whether the vocabulary has every separator."""
    return set(SPECIALS) <= set(words)
