"""Dialogue of Observation and Action lines, for base models without a chat template.

    instructions

    Observation: You are in a room.
    Action: go north
    Observation: There is a key here.
    Action: take key

A reply is one line: it ends with a token that has a line break, or with an end-of-text token. Many
tokenizers (Qwen2, Llama 3) join a line break with the punctuation before it, as in `]\\n`; what
precedes the line break in such a token is part of the reply. A reply begins with the space after
`Action:`, because tokenizers join a space with the word that follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentrl_components.dialogue.tokenizer import Codec
from agentrl_components.errors import ModelError
from agentrl_envs.env import split_exchange

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

LINE_BREAK_MARKS = ("\n", "Ċ", "<0x0A>")
"""A line break in vocabularies: literally, in byte-level BPE, and as a SentencePiece byte."""


class ReactDialogue:
    """`Observation: text` and `Action: reply` lines."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, ends: Sequence[int] = ()) -> None:
        """`ends` are further end tokens, from the model's generation config. Raises `ModelError` if
        the tokenizer has no token for a line break."""
        self._codec = Codec(tokenizer)
        breaks = _line_breaks(tokenizer, self._codec)
        own = [] if tokenizer.eos_token_id is None else [int(tokenizer.eos_token_id)]
        self.stop: tuple[int, ...] = tuple(dict.fromkeys([*breaks, *own, *ends]))
        self.thinks = False
        blank = {index for index, text in breaks.items() if not text.strip()}
        self._left_out = {*blank, *own, *(end for end in ends if end not in breaks)}
        """Stop tokens without text of the reply."""
        self._line_ends = blank | {i for i, text in breaks.items() if text.endswith("\n")}
        """Tokens after which a line begins."""
        first = tokenizer.bos_token_id
        self._start = [first] if tokenizer.encode("a")[:1] == [first] else []

    def opening(self, instructions: str, observation: str) -> list[int]:
        texts = [self._codec.escaped(text) for text in split_exchange(instructions) if text]
        lead = self._codec.encode("".join(f"{text}\n\n" for text in texts)) if texts else ()
        return [*self._start, *lead, *self._prompt(observation)]

    def following(self, reply: Sequence[int], observation: str) -> list[int]:
        # An end-of-text token ends the reply, but not the line.
        broken = bool(reply) and reply[-1] in self._line_ends
        return [*([] if broken else self.stop[:1]), *self._prompt(observation)]

    def closing(self, reply: Sequence[int]) -> list[int]:
        return [] if reply and reply[-1] in self.stop else [self.stop[0]]

    def text(self, reply: Sequence[int]) -> str:
        kept = [index for index in reply if index not in self._left_out]
        line, _, _ = self._codec.decode(kept).strip().partition("\n")
        return line.rstrip()

    def action(self, text: str) -> str:
        return text

    def encode_action(self, action: str) -> list[int]:
        return list(self._codec.encode(f" {self._codec.escaped(action)}"))

    def _prompt(self, observation: str) -> tuple[int, ...]:
        return self._codec.encode(f"Observation: {self._codec.escaped(observation)}\nAction:")


def _line_breaks(tokenizer: PreTrainedTokenizerBase, codec: Codec) -> dict[int, str]:
    """All tokens with a line break, and their texts; that of "\\n" first."""
    plain = codec.encode("\n")
    if len(plain) != 1 or codec.decode(plain) != "\n":
        raise ModelError(
            f"tokenizer of {tokenizer.name_or_path or 'the model'} has no token for a line break, "
            "which ends a reply with `template: react`; set `template: chat`"
        )
    marked = sorted(
        index
        for token, index in tokenizer.get_vocab().items()
        if any(mark in token for mark in LINE_BREAK_MARKS)
    )
    texts = {index: codec.decode([index]) for index in (plain[0], *marked)}
    return {index: text for index, text in texts.items() if "\n" in text or not text.strip()}
