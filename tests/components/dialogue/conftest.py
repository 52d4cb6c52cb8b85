"""Small byte-level BPE tokenizers trained on a few lines, with the special tokens of Qwen2.5, Qwen3
and Llama-3 and chat templates of the same structure."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

LINES = [
    "You are in a room. There is a key here.",
    "go north, go south, take key, open door, look",
    *["system", "user", "assistant", "Observation: ", "Action:", "go", "look", "Find it."],
    "\n\n",
]

QWEN2 = (
    "{%- if messages[0].role == 'system' -%}"
    "{{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' -}}"
    "{%- else -%}"
    "{{- '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' -}}"
    "{%- endif -%}"
    "{%- for m in messages if m.role != 'system' -%}"
    "{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"
)

QWEN3 = (
    "{%- set ns = namespace(last=0) -%}"
    "{%- for m in messages -%}"
    "{%- if m.role == 'user' -%}{%- set ns.last = loop.index0 -%}{%- endif -%}"
    "{%- endfor -%}"
    "{%- for m in messages -%}"
    "{%- set text = m.content -%}"
    "{%- if m.role == 'assistant' -%}"
    "{%- set text = m.content.split('</think>')[-1].lstrip('\n') -%}"
    "{%- if loop.index0 > ns.last -%}"
    "{%- set text = '<think>\n\n</think>\n\n' + text -%}"
    "{%- endif -%}"
    "{%- endif -%}"
    "{{- '<|im_start|>' + m.role + '\n' + text + '<|im_end|>\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}"
    "{{- '<|im_start|>assistant\n' -}}"
    "{%- if enable_thinking is defined and enable_thinking is false -%}"
    "{{- '<think>\n\n</think>\n\n' -}}"
    "{%- endif -%}"
    "{%- endif -%}"
)

LLAMA3 = (
    "{{- bos_token -}}"
    "{%- if date_string is not defined -%}"
    "{%- set date_string = strftime_now('%d %b %Y') -%}"
    "{%- endif -%}"
    "{%- if messages[0].role == 'system' -%}"
    "{%- set told = messages[0].content | trim -%}{%- set rest = messages[1:] -%}"
    "{%- else -%}"
    "{%- set told = '' -%}{%- set rest = messages -%}"
    "{%- endif -%}"
    "{{- '<|start_header_id|>system<|end_header_id|>\n\n' -}}"
    "{{- 'Today Date: ' + date_string + '\n\n' + told + '<|eot_id|>' -}}"
    "{%- for m in rest -%}"
    "{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' -}}"
    "{{- m.content | trim + '<|eot_id|>' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}"
    "{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}"
    "{%- endif -%}"
)

SPLIT_PATTERN = (
    r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""The pre-tokenizer pattern of these model families: consecutive line breaks are one token."""

CHATML = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
HEADERS = [
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|eot_id|>",
]

Make = Callable[..., PreTrainedTokenizerFast]


def train_tokenizer(
    special: list[str],
    template: str | None,
    eos: str,
    bos: str | None = None,
    pattern: str = SPLIT_PATTERN,
    more: tuple[str, ...] = (),
) -> PreTrainedTokenizerFast:
    model = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    model.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    model.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    model.train_from_iterator([*LINES, *more] * 4, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=model,
        eos_token=eos,
        bos_token=bos,
        extra_special_tokens=[token for token in special if token not in (eos, bos)],
        name_or_path="org/small",
    )
    tokenizer.chat_template = template
    return tokenizer


@pytest.fixture(scope="session")
def make() -> Make:
    """Trains a tokenizer. Arguments: special tokens, chat template, EOS token, BOS token, pattern
    of the pre-tokenizer, further texts to train on."""
    return train_tokenizer


@pytest.fixture(scope="session")
def qwen2() -> PreTrainedTokenizerFast:
    return train_tokenizer(CHATML, QWEN2, "<|im_end|>")


@pytest.fixture(scope="session")
def qwen3() -> PreTrainedTokenizerFast:
    tokenizer = train_tokenizer(CHATML, QWEN3, "<|im_end|>")
    tokenizer.add_tokens(["<think>", "</think>"])
    return tokenizer


@pytest.fixture(scope="session")
def llama3() -> PreTrainedTokenizerFast:
    return train_tokenizer(HEADERS, LLAMA3, "<|eot_id|>", "<|begin_of_text|>")


@pytest.fixture(scope="session")
def base() -> PreTrainedTokenizerFast:
    return train_tokenizer(["<|endoftext|>"], None, "<|endoftext|>")
