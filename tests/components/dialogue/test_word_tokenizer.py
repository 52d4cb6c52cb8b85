from __future__ import annotations

from pathlib import Path

import pytest
import saved_tokenizer
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from agentrl_components.dialogue.word_tokenizer import save, word_ids, word_tokenizer

VOCABULARY = ("go", "to", ".", ",", "'s", "ball", "n't", "12")
TOKENIZER = saved_tokenizer.save_and_load(VOCABULARY)
"""The tokenizer as loaded by transformers."""


def test_special_tokens_precede_the_sorted_words() -> None:
    tokens = TOKENIZER.convert_ids_to_tokens(list(range(len(TOKENIZER))))
    specials = ["<pad>", "<unk>", "<obs>", "<act>", "<end>"]
    assert tokens == [*specials, "'s", ",", ".", "12", "ball", "go", "n't", "to"]


def test_ids_depend_only_on_the_set_of_words() -> None:
    again = word_tokenizer([*reversed(VOCABULARY), "go"])
    assert again.get_vocab() == TOKENIZER.get_vocab()


def test_special_tokens_are_assigned_to_pad_unk_and_eos() -> None:
    assert (TOKENIZER.pad_token_id, TOKENIZER.unk_token_id, TOKENIZER.eos_token_id) == (0, 1, 4)


@given(st.lists(st.sampled_from(VOCABULARY)))
def test_decoding_inverts_encoding(words: list[str]) -> None:
    text = " ".join(words)
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


def test_an_unknown_word_is_encoded_as_one_unknown_token() -> None:
    assert TOKENIZER.encode("go dragon") == [10, 1]


@pytest.mark.parametrize("word", ["", "go to", " go", "<act>", "x<end>"])
def test_an_invalid_word_is_rejected(word: str) -> None:
    with pytest.raises(ValueError, match="not a word"):
        word_tokenizer(["go", word])


def test_the_tokenizer_is_unchanged_after_transformers_loads_and_saves_it(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    save(word_tokenizer(VOCABULARY), ours)
    loaded = AutoTokenizer.from_pretrained(ours)
    loaded.save_pretrained(theirs)
    again = AutoTokenizer.from_pretrained(theirs)
    assert again.get_vocab() == loaded.get_vocab() == word_tokenizer(VOCABULARY).get_vocab()
    assert again.chat_template == loaded.chat_template
    assert (loaded.eos_token, loaded.pad_token) == ("<end>", "<pad>")
    text = "go to 12 ball , 's n't ."
    assert again.encode(text) == loaded.encode(text)
    assert loaded.decode(loaded.encode(text)) == text
    assert word_ids(theirs) == word_ids(ours) == loaded.get_vocab()


def test_word_ids_is_none_for_a_tokenizer_that_is_not_word_level(tmp_path: Path) -> None:
    assert word_ids(tmp_path) is None
    for text in ("{", "[]", "{}", '{"model": {"type": "BPE", "vocab": {}}, "added_tokens": []}'):
        (tmp_path / "tokenizer.json").write_text(text)
        assert word_ids(tmp_path) is None
    other = '{"model": {"type": "WordLevel", "vocab": {"go": 0}}, "added_tokens": []}'
    (tmp_path / "tokenizer.json").write_text(other)
    assert word_ids(tmp_path) is None


def test_a_longer_chat_extends_the_ids_of_a_shorter_one() -> None:
    messages = [
        {"role": "system", "content": "go"},
        {"role": "user", "content": "ball"},
        {"role": "assistant", "content": "to"},
        {"role": "user", "content": "12"},
    ]
    short = TOKENIZER.apply_chat_template(
        messages[:2], add_generation_prompt=True, return_dict=False
    )
    long = TOKENIZER.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert short == [2, 10, 9, 3]
    assert long == [*short, 12, 4, 2, 8, 3]
