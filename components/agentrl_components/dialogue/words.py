"""A tokenizer of whole words, for models that are trained from scratch in closed worlds."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast

from agentrl_components.dialogue.plain import ACT, END, OBSERVE, PAD, SPECIALS, UNKNOWN

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


def word_tokenizer(vocabulary: Sequence[str]) -> PreTrainedTokenizerFast:
    """A tokenizer with one id a word: `SPECIALS` first, then the words in sorted order, so that its
    ids depend on the set of words alone. Unknown words become `<unk>`; decoding joins words with
    single spaces.

    Raises `ValueError` when a word is empty, holds white space or a separator.
    """
    for word in vocabulary:
        if word.split() != [word] or any(special in word for special in SPECIALS):
            raise ValueError(f"not a word of a vocabulary: {word!r}")
    table = {token: index for index, token in enumerate((*SPECIALS, *sorted(set(vocabulary))))}
    model = Tokenizer(WordLevel(vocab=table, unk_token=UNKNOWN))
    model.pre_tokenizer = WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=model,
        unk_token=UNKNOWN,
        pad_token=PAD,
        eos_token=END,
        extra_special_tokens=[OBSERVE, ACT],
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
