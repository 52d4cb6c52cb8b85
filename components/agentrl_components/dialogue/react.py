"""Dialogue of Observation and Action lines, for base models without a chat template.

    instructions

    Observation: You are in a room.
    Action: go north
    Observation: There is a key here.
    Action: take key

A reply is one line: it ends with a line break token or an end-of-text token. It begins with the
space after `Action:`, because tokenizers join a space with the word that follows.
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

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._codec = Codec(tokenizer)
        self._breaks = _line_breaks(tokenizer, self._codec)
        ends = [] if tokenizer.eos_token_id is None else [int(tokenizer.eos_token_id)]
        self.stop: tuple[int, ...] = (*self._breaks, *ends)
        first = tokenizer.bos_token_id
        self._start = [first] if tokenizer.encode("a")[:1] == [first] else []

    def opening(self, instructions: str, observation: str) -> list[int]:
        texts = [self._codec.escaped(text) for text in split_exchange(instructions) if text]
        lead = self._codec.encode("".join(f"{text}\n\n" for text in texts)) if texts else ()
        return [*self._start, *lead, *self._prompt(observation)]

    def following(self, reply: Sequence[int], observation: str) -> list[int]:
        # An end-of-text token ends the reply, but not the line.
        broken = bool(reply) and reply[-1] in self._breaks
        return [*([] if broken else self._breaks[:1]), *self._prompt(observation)]

    def closing(self, reply: Sequence[int]) -> list[int]:
        return [] if reply and reply[-1] in self.stop else [self._breaks[0]]

    def text(self, reply: Sequence[int]) -> str:
        return self._codec.decode([index for index in reply if index not in self.stop]).strip()

    def action(self, text: str) -> str:
        return text

    def encode_action(self, action: str) -> list[int]:
        return list(self._codec.encode(f" {self._codec.escaped(action)}"))

    def _prompt(self, observation: str) -> tuple[int, ...]:
        return self._codec.encode(f"Observation: {self._codec.escaped(observation)}\nAction:")


def _line_breaks(tokenizer: PreTrainedTokenizerBase, codec: Codec) -> tuple[int, ...]:
    """Ids of all white space tokens with a line break; that of "\\n" first."""
    plain = codec.encode("\n")
    if len(plain) != 1 or codec.decode(plain) != "\n":
        raise ModelError(
            f"tokenizer of {tokenizer.name_or_path or 'the model'} has no token for a line break, "
            "which ends a reply with `template: react`; set `template: chat`"
        )
    marked = (
        index
        for token, index in tokenizer.get_vocab().items()
        if any(mark in token for mark in LINE_BREAK_MARKS)
    )
    blank = sorted(index for index in marked if not codec.decode([index]).strip())
    return (plain[0], *(index for index in blank if index != plain[0]))
