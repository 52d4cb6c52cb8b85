"""A word-level tokenizer, saved to a folder and loaded by transformers."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from agentrl_components.dialogue.word_tokenizer import save, word_tokenizer


def save_and_load(words: Sequence[str]) -> PreTrainedTokenizerFast:
    with TemporaryDirectory() as folder:
        save(word_tokenizer(words), Path(folder))
        return AutoTokenizer.from_pretrained(folder)
