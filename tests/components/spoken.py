"""A tokenizer of words, as transformers opens the folder that holds it."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from agentrl_components.dialogue.word_tokenizer import save, word_tokenizer


def opened(words: Sequence[str]) -> PreTrainedTokenizerFast:
    with TemporaryDirectory() as folder:
        save(word_tokenizer(words), Path(folder))
        return AutoTokenizer.from_pretrained(folder)
