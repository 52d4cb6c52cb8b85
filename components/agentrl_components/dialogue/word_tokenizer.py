"""A word-level tokenizer, for tiny models that are trained from scratch.

It is created, saved and read without transformers, whose import takes half as long as that of torch
in every process of a run. transformers can load the files that `save` writes.
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
    has_separators,
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
"""A chat template that renders conversations as `plain.PlainDialogue` does, for use of a checkpoint
in other tools. A system message and the following user message share one separator."""


SETTINGS = {
    "backend": "tokenizers",
    "clean_up_tokenization_spaces": False,
    "eos_token": END,
    "extra_special_tokens": [OBSERVE, ACT],
    "model_max_length": int(1e30),  # transformers' value for: no limit
    "pad_token": PAD,
    "tokenizer_class": "TokenizersBackend",
    "unk_token": UNKNOWN,
}
"""Content of tokenizer_config.json, as transformers writes it for such a tokenizer."""


def word_tokenizer(vocabulary: Sequence[str]) -> Tokenizer:
    """A tokenizer with one id per word: `SPECIALS` first, then the words in sorted order, so that
    the ids depend only on the set of words. Unknown words become `<unk>`. Decoding joins words with
    single spaces.

    Raises `ValueError` if a word is empty or contains white space or a separator.
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
    """Write the files of the tokenizer into a model folder, as transformers would."""
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = json.dumps(SETTINGS, indent=2, sort_keys=True) + "\n"
    (folder / "tokenizer_config.json").write_text(settings, encoding="utf-8")
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")


def word_ids(folder: Path) -> dict[str, int] | None:
    """The id of every word, if the tokenizer in a model folder is a word tokenizer. None if it is
    of another kind or damaged; loading it with transformers then reports the error."""
    try:
        tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        if tokenizer["model"]["type"] != "WordLevel":
            return None
        added = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
        ids: dict[str, int] = tokenizer["model"]["vocab"] | added
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return ids if has_separators(ids) else None
