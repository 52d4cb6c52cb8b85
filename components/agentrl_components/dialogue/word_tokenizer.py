"""A tokenizer of whole words, for models that are trained from scratch in closed worlds.

It is made, kept and read without transformers, which opens what `save` writes: importing that takes
half as long as importing torch, in every process of a run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing

from agentrl_components.dialogue.plain import (
    ACT,
    END,
    OBSERVE,
    PAD,
    SPECIALS,
    UNKNOWN,
    speaks_plain,
)

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'assistant' -%}"
    f"{{{{ '{ACT} ' + message['content'] + ' {END} ' }}}}"
    "{%- else -%}"
    "{%- if loop.first or messages[loop.index0 - 1]['role'] == 'assistant' -%}"
    f"{{{{ '{OBSERVE} ' }}}}"
    "{%- endif -%}"
    "{{ message['content'] + ' ' }}"
    "{%- endif -%}"
    "{%- endfor -%}"
    f"{{%- if add_generation_prompt -%}}{{{{ '{ACT}' }}}}{{%- endif -%}}"
)
"""The same conversation as `plain.PlainDialogue` makes, for whoever chats with a checkpoint. Each
message only appends; a system message and the user message after it share one separator."""


SETTINGS = {
    "backend": "tokenizers",
    "clean_up_tokenization_spaces": False,
    "eos_token": END,
    "extra_special_tokens": [OBSERVE, ACT],
    "model_max_length": int(1e30),  # transformers' word for: any
    "pad_token": PAD,
    "tokenizer_class": "TokenizersBackend",
    "unk_token": UNKNOWN,
}
"""What transformers writes into tokenizer_config.json of such a tokenizer."""


def word_tokenizer(vocabulary: Sequence[str]) -> Tokenizer:
    """A tokenizer with one id a word: `SPECIALS` first, then the words in sorted order, so that its
    ids depend on the set of words alone. Unknown words become `<unk>`; decoding joins words with
    single spaces.

    Raises `ValueError` when a word is empty, holds white space or a separator.
    """
    for word in vocabulary:
        if word.split() != [word] or any(special in word for special in SPECIALS):
            raise ValueError(f"not a word of a vocabulary: {word!r}")
    table = {token: index for index, token in enumerate((*SPECIALS, *sorted(set(vocabulary))))}
    tokenizer = Tokenizer(WordLevel(vocab=table, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.post_processor = TemplateProcessing(single="$A", pair="$A $B:1", special_tokens=[])
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIALS])
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Write a tokenizer of words into a model's folder, as transformers would."""
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = json.dumps(SETTINGS, indent=2, sort_keys=True) + "\n"
    (folder / "tokenizer_config.json").write_text(settings, encoding="utf-8")
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")


def read(folder: Path) -> dict[str, int] | None:
    """The ids of the words of a model's folder; None where its tokenizer is of another kind, or
    damaged, of which transformers says what is wrong."""
    try:
        told = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        if told["model"]["type"] != "WordLevel":
            return None
        added = {token["content"]: token["id"] for token in told["added_tokens"]}
        ids: dict[str, int] = told["model"]["vocab"] | added
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return ids if speaks_plain(ids) else None
