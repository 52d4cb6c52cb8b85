"""Append-only dialogue with the tokenizer's own chat template.

Rendering the whole conversation again at every turn would encode sampled text again, and some
templates remove the thinking of earlier replies. Therefore the template is rendered once with short
conversations of marker texts, and only the pieces between the markers are ever encoded:

    before (with instructions)    <|im_start|>system ... <|im_end|> <|im_start|>user
    prompt                        <|im_end|> <|im_start|>assistant
    closer (if not sampled)       <|im_end|>
    glue                          <|im_start|>user

Decisions:

- Instructions are the system message. If the template supports none, they precede the first
  observation. Without instructions, the template's default system message is kept (Qwen2.5).
- Instructions that are an exchange (`split_exchange`) are a user message and a reply instead.
- Without `model.thinking`, thinking is disabled if the template allows it (`enable_thinking`,
  Qwen3). The generation prompt then contains an empty think block, and replies are short enough to
  be one action. The block, or any thoughts that the model samples, stay in the history even if the
  template would remove them, because these tokens were part of the context. The environment gets
  what follows the thoughts at the beginning of a reply.
- The date is fixed (`DATE`), so that a run resumed on another day has the same prompts (Llama-3).
- Texts are stripped of surrounding white space, as in the template of Llama-3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

from agentrl_components.dialogue.tokenizer import Codec
from agentrl_components.errors import DriftError, ModelError
from agentrl_envs.chat.thoughts import THOUGHT, THOUGHT_END, after_thoughts
from agentrl_envs.env import split_exchange

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

DATE = date(2024, 7, 26)
"""The date in all prompts: the default of Llama-3's own template."""

ENDS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|end|>",
    "<end_of_turn>",
    "</s>",
)
"""Special tokens that end a reply, if the vocabulary has them. The generation configs of Qwen2.5,
Qwen3 and Llama-3 name the same ones: end of message, end of text, and `<|eom_id|>` of Llama-3."""

SYSTEM = "AgentMark-0"
"""Marker for the text of the system message."""
MARKS = ("AgentMark-1", "AgentMark-2", "AgentMark-3", "AgentMark-4", "AgentMark-5")
"""Markers for the texts of user and assistant messages, alternating."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """The pieces that a template writes around the texts of a conversation."""

    before: str
    """The text before the first user message."""
    prompt: str
    """The text between a user message and the reply."""
    space: str
    """White space after `prompt` with which the template begins each reply (Mistral): it is part of
    the reply, since tokenizers join a space with the word that follows. Empty in most templates."""
    closer: str
    """The special token that ends a reply."""
    glue: str
    """The text between the closer and the next user message."""


class ChatDialogue:
    """The tokenizer's chat template, append-only."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, ends: Sequence[int] = (), thinking: bool = False
    ) -> None:
        """Args:
            ends: further end tokens, from the model's generation config.
            thinking: enable thinking in replies.

        Raises:
            ModelError: the tokenizer has no usable template, or one without thinking.
            DriftError: the template changes earlier messages as the conversation grows.
        """
        self._codec = Codec(tokenizer)
        template = _Template(tokenizer, self._codec, thinking)
        self._bare = template.pieces(system=None)
        self.thinks = THOUGHT in self._bare.prompt and THOUGHT_END not in self._bare.prompt
        if thinking and not self.thinks and not template.has_option():
            raise ModelError(
                f"{template.name} has no option to think (`enable_thinking`); set "
                "`model.thinking: false`"
            )
        self._instructed = template.instructed(self._bare)
        bare = self._bare
        written = [bare.before, bare.prompt, bare.closer, bare.glue, self._instructed or ""]
        # Replies are escaped too, and thoughts are part of them.
        self._codec.forbid("".join(written), allowed=(THOUGHT, THOUGHT_END))
        closer = self._codec.special[bare.closer]
        known = [self._codec.special[token] for token in ENDS if token in self._codec.special]
        own = [] if tokenizer.eos_token_id is None else [int(tokenizer.eos_token_id)]
        self.stop: tuple[int, ...] = tuple(dict.fromkeys([closer, *own, *known, *ends]))

    def opening(self, instructions: str, observation: str) -> list[int]:
        instructions, answer = split_exchange(instructions)
        if answer is not None:
            pieces = self._bare
            said = (self._codec.escaped(text) for text in (instructions, answer, observation))
            user, reply, seen = said
            spoken = pieces.space + reply + pieces.closer
            exchange = user + pieces.prompt + spoken + pieces.glue
            return list(self._codec.encode(pieces.before + exchange + seen + pieces.prompt))
        system, seen = self._codec.escaped(instructions), self._codec.escaped(observation)
        before = self._bare.before
        if system and self._instructed is not None:
            before = self._instructed.replace(SYSTEM, system)
        elif system:
            seen = f"{system}\n\n{seen}"
        return list(self._codec.encode(before + seen + self._bare.prompt))

    def following(self, reply: Sequence[int], observation: str) -> list[int]:
        # Encoded together with the closer: text after a special token may be tokenized differently
        # from text at the beginning.
        pieces = self._bare
        seen = self._codec.escaped(observation)
        _, *after = self._codec.encode(pieces.closer + pieces.glue + seen + pieces.prompt)
        return [*self.closing(reply), *after]

    def closing(self, reply: Sequence[int]) -> list[int]:
        return [] if reply and reply[-1] in self.stop else [self.stop[0]]

    def text(self, reply: Sequence[int]) -> str:
        text = self._codec.decode([index for index in reply if index not in self.stop])
        return text.removeprefix(self._bare.space)

    def action(self, text: str) -> str:
        return after_thoughts(text, begun=self.thinks)

    def encode_action(self, action: str) -> list[int]:
        text, space = self._codec.escaped(action), self._bare.space
        if not space:
            return list(self._codec.encode(text))
        # As it is tokenized after the prompt: some tokenizers put a space before any text of its
        # own.
        prompt = self._codec.encode(self._bare.prompt)
        whole = self._codec.encode(self._bare.prompt + space + text)
        follows = whole[: len(prompt)] == prompt
        return list(whole[len(prompt) :] if follows else self._codec.encode(space + text))


class _Template:
    """Renders conversations of markers and extracts the pieces between them."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, codec: Codec, thinking: bool) -> None:
        self._tokenizer = tokenizer
        self._codec = codec
        self._thinking = thinking
        self.name = f"the chat template of {tokenizer.name_or_path or 'the model'}"
        if not tokenizer.chat_template:
            raise ModelError(
                f"tokenizer of {tokenizer.name_or_path or 'the model'} has no chat template; "
                "set `template: react`, or use the instruct variant of the model"
            )

    def has_option(self) -> bool:
        """Whether thinking changes what is rendered."""
        on, off = (self._render(None, MARKS[:1], thinking=choice) for choice in (True, False))
        return on != off

    def instructed(self, bare: Pieces) -> str | None:
        """The piece before the first user message with a system message, whose text is `SYSTEM`.
        None: the template does not support system messages."""
        try:
            pieces = self.pieces(system=SYSTEM)
        except (ModelError, DriftError):
            return None
        same = replace(pieces, before=bare.before) == bare
        return pieces.before if same and pieces.before.count(SYSTEM) == 1 else None

    def pieces(self, system: str | None) -> Pieces:
        """The pieces, from conversations of one, three and five messages, which must agree.

        Raises `ModelError` or `DriftError` as `ChatDialogue` does.
        """
        one, three, five = (self._render(system, MARKS[:size]) for size in (1, 3, 5))
        before, prompt = self._between(one, MARKS[:1])
        _, head, after, _ = self._between(three, MARKS[:3])
        # The generation prompt may have more than the history, such as an empty think block, or
        # less: the space before a reply.
        space = head.removeprefix(prompt) if head.startswith(prompt) else ""
        kept = prompt.startswith(head) or space.isspace()
        grown = [before, MARKS[0], head, MARKS[1], after, MARKS[2]]
        kept &= three == "".join([*grown, prompt])
        kept &= five == "".join([*grown, head, MARKS[3], after, MARKS[4], prompt])
        if not kept:
            raise DriftError(
                f"{self.name} changes earlier messages as a conversation grows, so the trained "
                "tokens would differ from the sampled ones; set `template: react`"
            )
        closer = self._codec.special_at(after.lstrip())
        if closer is None:
            raise ModelError(
                f"{self.name} does not end a reply with a special token; set `template: react`"
            )
        glue = after.lstrip().removeprefix(closer)
        return Pieces(before=before, prompt=prompt, space=space, closer=closer, glue=glue)

    def _render(
        self, system: str | None, texts: Sequence[str], thinking: bool | None = None
    ) -> str:
        from jinja2 import TemplateError  # imported late: only chat models need it

        roles = ("user", "assistant")
        messages = [] if system is None else [{"role": "system", "content": system}]
        messages += [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]
        try:
            rendered = self._tokenizer.apply_chat_template(
                messages,
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=self._thinking if thinking is None else thinking,
                date_string=DATE.strftime("%d %b %Y"),
                strftime_now=DATE.strftime,
            )
        except (TemplateError, TypeError, ValueError) as error:
            raise ModelError(
                f"{self.name} cannot be rendered: {error}; set `template: react`"
            ) from error
        return str(rendered)

    def _between(self, rendered: str, marks: Sequence[str]) -> list[str]:
        """The texts before, between and after the markers, each of which must occur once."""
        pieces, rest = [], rendered
        for mark in marks:
            if rendered.count(mark) != 1 or mark not in rest:
                raise DriftError(
                    f"{self.name} does not render every message once and in order, so turns "
                    "cannot be appended; set `template: react`"
                )
            piece, _, rest = rest.partition(mark)
            pieces.append(piece)
        return [*pieces, rest]
