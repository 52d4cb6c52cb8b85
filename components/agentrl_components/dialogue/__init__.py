"""How a conversation becomes tokens, and stays the tokens it was.

A dialogue only ever appends: `opening`, then after each reply `following`. What was sampled is
given back to no tokenizer; the pieces around it are encoded once, when they are first said.

    opening  reply  following  reply  following  reply  closing

`plain` puts bare texts between separator tokens, `react` writes Observation/Action lines for models
without a chat template, `chat` takes the tokenizer's own chat template apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from agentrl_components.dialogue.chat import ChatDialogue
from agentrl_components.dialogue.plain import PlainDialogue, speaks_plain
from agentrl_components.dialogue.react import ReactDialogue

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Template = Literal["auto", "plain", "react", "chat"]
"""Values of `model.template` in a manifest."""


class Dialogue(Protocol):
    """Turns the words of an episode into token ids, piece by piece. `reply` is always a list of ids
    as sampled, its stop token included where one was sampled."""

    stop: tuple[int, ...]
    """Token ids that end a reply."""

    def opening(self, instructions: str, observation: str) -> list[int]:
        """The prompt, up to where the first reply begins."""
        ...

    def following(self, reply: Sequence[int], observation: str) -> list[int]:
        """What comes after `reply`, up to where the next reply begins. Closes the reply first if it
        was cut by length and so lacks its stop token."""
        ...

    def closing(self, reply: Sequence[int]) -> list[int]:
        """What closes the last reply of an episode; empty when it ends in its stop token."""
        ...

    def text(self, reply: Sequence[int]) -> str:
        """The reply as text without stop tokens: for people and environments, not to encode."""
        ...

    def encode_action(self, action: str) -> list[int]:
        """An admissible action as a reply without a stop token."""
        ...


def dialogue_for(
    template: Template, tokenizer: PreTrainedTokenizerBase, tiny: bool, ends: Sequence[int] = ()
) -> Dialogue:
    """The dialogue that a manifest asks for. `auto` is `plain` for a tiny model and for a
    checkpoint of one, else `chat`.

    `ends`: end tokens that the model's generation config names. A chat stops at them too.

    Raises `ModelError` when the tokenizer cannot carry that template, `DriftError` when its chat
    template rewrites what was said before.
    """
    ids = tokenizer.get_vocab()
    if template == "plain" or (template == "auto" and (tiny or speaks_plain(ids))):
        return PlainDialogue(ids, tokenizer.name_or_path)
    if template == "react":
        return ReactDialogue(tokenizer)
    return ChatDialogue(tokenizer, ends)
