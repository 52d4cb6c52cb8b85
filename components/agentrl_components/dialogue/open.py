"""Select and open the dialogue and the tokenizer of a model folder.

`plain` puts bare texts between separator tokens, `react` writes Observation/Action lines for models
without a chat template, `chat` uses the tokenizer's own chat template.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agentrl_components.dialogue import word_tokenizer
from agentrl_components.dialogue.chat import ChatDialogue
from agentrl_components.dialogue.plain import PlainDialogue, has_separators
from agentrl_components.dialogue.protocol import Dialogue
from agentrl_components.dialogue.react import ReactDialogue
from agentrl_components.errors import ModelError, model_errors
from agentrl_components.spec import RunSpec

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

GENERATION = "generation_config.json"
"""File of a model folder with the end tokens, and with the sampling that servers and transformers
use by default."""

Template = Literal["auto", "plain", "react", "chat"]
"""Values of `model.template` in a manifest."""

FAST_TOKENIZER_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""Tokenizer classes that tokenizer.json describes completely."""


def dialogue_of(spec: RunSpec, folder: Path) -> Dialogue:
    """The dialogue of a manifest's model, which is in `folder`. Raises what `open_dialogue`
    raises, and `ModelError` if its replies always begin with thoughts, for which
    `rollout.actions: admissible` has no room."""
    model = spec.model
    dialogue = open_dialogue(
        folder, model.template, model.source == "tiny", thinking=model.thinking
    )
    if dialogue.thinks and spec.rollout.actions == "admissible":
        raise ModelError(
            f"spec.rollout.actions: is admissible, by which a reply is an action without thoughts, "
            f"and the chat template of {model.source} always asks for thoughts; set it to free"
        )
    return dialogue


def open_dialogue(
    folder: str | os.PathLike[str], template: Template, tiny: bool, *, thinking: bool = False
) -> Dialogue:
    """The dialogue of the model in `folder`. `thinking` is `model.thinking`, for a chat template.

    Raises:
        ModelError, DriftError: as `open_tokenizer` and `dialogue_for` do.
    """
    folder = Path(folder)
    if template in ("auto", "plain"):
        ids = word_tokenizer.word_ids(folder)
        if ids is not None:
            return PlainDialogue(ids)
    return dialogue_for(
        template, open_tokenizer(folder), tiny, generation_ends(folder), thinking=thinking
    )


def dialogue_for(
    template: Template,
    tokenizer: PreTrainedTokenizerBase,
    tiny: bool,
    ends: Sequence[int] = (),
    *,
    thinking: bool = False,
) -> Dialogue:
    """The dialogue for a manifest's `model.template`. `auto` selects `plain` for a tiny model and
    for a checkpoint of one, and `chat` otherwise.

    Args:
        ends: end tokens named by the model's generation config; a reply also stops at them, but for
            `plain`.
        thinking: replies begin with thoughts, in a chat template that has this option.

    Raises:
        ModelError: the tokenizer cannot express the template.
        DriftError: its chat template changes text that was already encoded.
    """
    ids = tokenizer.get_vocab()
    if template == "plain" or (template == "auto" and (tiny or has_separators(ids))):
        return PlainDialogue(ids, tokenizer.name_or_path)
    if template == "react":
        return ReactDialogue(tokenizer, ends)
    return ChatDialogue(tokenizer, ends, thinking)


def generation_ends(folder: Path) -> tuple[int, ...]:
    """The end tokens that the generation config of the model in `folder` names, if it has one.
    Raises `ModelError` if it cannot be read."""
    path = folder / GENERATION
    if not path.is_file():
        return ()
    try:
        found = json.loads(path.read_text("utf-8")).get("eos_token_id")
    except (OSError, ValueError, AttributeError) as error:
        raise ModelError(f"{path}: cannot be read: {error}") from error
    ends = found if isinstance(found, list) else [found]
    return tuple(end for end in ends if isinstance(end, int))


def open_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer saved in `folder`. Raises `ModelError` if it cannot be loaded."""
    with model_errors(ModelError, f"{folder}: its tokenizer cannot be used"):
        tokenizer = _load_tokenizer(folder)
        if not tokenizer.encode("a"):
            raise ValueError("it has no token for a letter; is tokenizer.json missing?")
    return tokenizer


def _load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    from transformers import PreTrainedTokenizerFast

    config = folder / "tokenizer_config.json"
    if (
        config.is_file()
        and json.loads(config.read_text("utf-8")).get("tokenizer_class") in FAST_TOKENIZER_CLASSES
    ):
        # AutoTokenizer would import a large part of transformers in every process.
        fast: PreTrainedTokenizerBase = PreTrainedTokenizerFast.from_pretrained(
            folder, trust_remote_code=False
        )
        return fast
    from transformers import AutoTokenizer

    # Where mistral-common is installed, as with vLLM, a folder with tekken.json has a tokenizer of
    # another kind by default, without special tokens in texts and without a chat template.
    # By default transformers asks on the terminal whether to execute code of the folder.
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
        folder, mistral_format=False, trust_remote_code=False
    )
    return tokenizer
