"""A tokenizer's own chat template, taken apart once so that turns can be appended to ids.

Rendering the whole conversation again at every turn would encode sampled text again, and some
templates strip what an earlier reply thought. So the template renders short conversations of marks
here, and what stands between the marks is all that is ever encoded:

    before, instructions within   <|im_start|>system ... <|im_end|> <|im_start|>user
    prompt                        <|im_end|> <|im_start|>assistant
    closer, if not sampled        <|im_end|>
    glue                          <|im_start|>user

What a template decides and what is decided here:

- Instructions are the system message; where a template has none, they lead the first observation.
  Without instructions a template's default system message stays (Qwen2.5).
- Thinking is off where a template can turn it off (`enable_thinking`, Qwen3): its generation
  prompt then holds an empty think block, and a reply is short enough to be one action. The block,
  or what a model thought all the same, stays in the history even where the template would strip
  it: those are the tokens that were seen and sampled.
- Dates are fixed (`DATE`), or a run resumed tomorrow would have another prompt (Llama-3).
- Texts are stripped of white space around them, as Llama-3's template does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from agentrl_components.dialogue.tokenizer import Codec
from agentrl_components.errors import DriftError, ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

DATE = date(2024, 7, 26)
"""The day that every prompt is written on: the default of Llama-3's own template."""

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
"""Special tokens that end a reply wherever a vocabulary has them. Generation configs name the same
ones: Qwen2.5 and Qwen3 the end of a message and of a text, Llama-3 those two and `<|eom_id|>`."""

SYSTEM = "AgentMark-0"
"""Stands for the text of a system message."""
MARKS = ("AgentMark-1", "AgentMark-2", "AgentMark-3", "AgentMark-4", "AgentMark-5")
"""Stand for the texts of user and assistant messages in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """What a template writes around the texts of a conversation."""

    before: str
    """Before the first user message."""
    prompt: str
    """After a user message, up to where the reply begins."""
    closer: str
    """The special token that ends a reply."""
    glue: str
    """Between the closer and the next user message."""


class ChatDialogue:
    """The tokenizer's chat template, append-only."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, ends: Sequence[int] = (), thinking: bool = False
    ) -> None:
        """`ends`: further end tokens, as a generation config names them. `thinking`: let a model
        think aloud in its replies, where the template leaves the choice.

        Raises `ModelError` when there is no usable template, `DriftError` when the template
        changes earlier messages as a conversation grows."""
        self._codec = Codec(tokenizer)
        template = _Template(tokenizer, self._codec, thinking)
        self._bare = template.pieces(system=None)
        self._instructed = template.instructed(self._bare)
        closer = self._codec.special[self._bare.closer]
        known = [self._codec.special[token] for token in ENDS if token in self._codec.special]
        own = [] if tokenizer.eos_token_id is None else [int(tokenizer.eos_token_id)]
        self.stop: tuple[int, ...] = tuple(dict.fromkeys([closer, *own, *known, *ends]))

    def opening(self, instructions: str, observation: str) -> list[int]:
        told, seen = self._codec.foreign(instructions), self._codec.foreign(observation)
        before = self._bare.before
        if told and self._instructed is not None:
            before = self._instructed.replace(SYSTEM, told)
        elif told:
            seen = f"{told}\n\n{seen}"
        return list(self._codec.encode(before + seen + self._bare.prompt))

    def following(self, reply: Sequence[int], observation: str) -> list[int]:
        # Encoded from the closer on, because what follows a special token may be cut differently
        # from what begins a text.
        pieces = self._bare
        seen = self._codec.foreign(observation)
        _, *after = self._codec.encode(pieces.closer + pieces.glue + seen + pieces.prompt)
        return [*self.closing(reply), *after]

    def closing(self, reply: Sequence[int]) -> list[int]:
        return [] if reply and reply[-1] in self.stop else [self.stop[0]]

    def text(self, reply: Sequence[int]) -> str:
        return self._codec.decode([index for index in reply if index not in self.stop])

    def encode_action(self, action: str) -> list[int]:
        return list(self._codec.encode(self._codec.foreign(action)))


class _Template:
    """Renders conversations of marks and reads off the pieces between them."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, codec: Codec, thinking: bool) -> None:
        self._tokenizer = tokenizer
        self._codec = codec
        self._thinking = thinking
        self._name = f"the chat template of {tokenizer.name_or_path or 'the model'}"
        if not tokenizer.chat_template:
            raise ModelError(
                f"tokenizer of {tokenizer.name_or_path or 'the model'} has no chat template; "
                "say `template: react`, or take the model's instruct form"
            )

    def instructed(self, bare: Pieces) -> str | None:
        """What stands before the first user message when there is a system message, `SYSTEM` in
        place of its text. None: the template has no place where one stays."""
        try:
            pieces = self.pieces(system=SYSTEM)
        except (ModelError, DriftError):
            return None
        same = (pieces.prompt, pieces.closer, pieces.glue) == (bare.prompt, bare.closer, bare.glue)
        return pieces.before if same and pieces.before.count(SYSTEM) == 1 else None

    def pieces(self, system: str | None) -> Pieces:
        """The pieces, from conversations of one, three and five messages that must agree.

        Raises `ModelError` or `DriftError`, as `ChatDialogue` does.
        """
        one, three, five = (self._render(system, MARKS[:size]) for size in (1, 3, 5))
        before, prompt = self._between(one, MARKS[:1])
        _, head, after, _ = self._between(three, MARKS[:3])
        # A generation prompt may say more than history keeps of it: an empty think block, say.
        kept = prompt.startswith(head)
        grown = [before, MARKS[0], head, MARKS[1], after, MARKS[2]]
        kept &= three == "".join([*grown, prompt])
        kept &= five == "".join([*grown, head, MARKS[3], after, MARKS[4], prompt])
        if not kept:
            raise DriftError(
                f"{self._name} changes earlier messages as a conversation grows, so what was "
                "sampled would not be what is trained; say `template: react`"
            )
        closer = self._codec.special_at(after.lstrip())
        if closer is None:
            raise ModelError(
                f"{self._name} ends a reply with no special token, so no reply would know its end; "
                "say `template: react`"
            )
        glue = after.lstrip().removeprefix(closer)
        return Pieces(before=before, prompt=prompt, closer=closer, glue=glue)

    def _render(self, system: str | None, texts: Sequence[str]) -> str:
        from jinja2 import TemplateError  # only models that chat need it

        roles = ("user", "assistant")
        messages = [] if system is None else [{"role": "system", "content": system}]
        messages += [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]
        try:
            rendered = self._tokenizer.apply_chat_template(
                messages,
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=self._thinking,
                date_string=DATE.strftime("%d %b %Y"),
                strftime_now=DATE.strftime,
            )
        except (TemplateError, TypeError, ValueError) as error:
            raise ModelError(
                f"{self._name} cannot be rendered: {error}; say `template: react`"
            ) from error
        return str(rendered)

    def _between(self, rendered: str, marks: Sequence[str]) -> list[str]:
        """What stands before, between and after the marks, each of which must be there once."""
        pieces, rest = [], rendered
        for mark in marks:
            if rendered.count(mark) != 1 or mark not in rest:
                raise DriftError(
                    f"{self._name} does not show every message once and in order, so no turn can "
                    "be appended to what was sampled; say `template: react`"
                )
            piece, _, rest = rest.partition(mark)
            pieces.append(piece)
        return [*pieces, rest]
