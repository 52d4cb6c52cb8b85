from __future__ import annotations

from pathlib import Path

import pytest
import spoken
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from agentrl_components.dialogue.word_tokenizer import save, word_ids, word_tokenizer

VOCABULARY = ("go", "to", ".", ",", "'s", "ball", "n't", "12")
TOKENIZER = spoken.opened(VOCABULARY)
"""As transformers has it."""


def test_separators_come_first_then_words_in_sorted_order() -> None:
    tokens = TOKENIZER.convert_ids_to_tokens(list(range(len(TOKENIZER))))
    specials = ["<pad>", "<unk>", "<obs>", "<act>", "<end>"]
    assert tokens == [*specials, "'s", ",", ".", "12", "ball", "go", "n't", "to"]


def test_ids_depend_on_the_set_of_words_alone() -> None:
    again = word_tokenizer([*reversed(VOCABULARY), "go"])
    assert again.get_vocab() == TOKENIZER.get_vocab()


def test_special_tokens_are_known_by_their_roles() -> None:
    assert (TOKENIZER.pad_token_id, TOKENIZER.unk_token_id, TOKENIZER.eos_token_id) == (0, 1, 4)


@given(st.lists(st.sampled_from(VOCABULARY)))
def test_decoding_gives_back_words_joined_by_single_spaces(words: list[str]) -> None:
    text = " ".join(words)
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


def test_an_unknown_word_is_one_unknown_token() -> None:
    assert TOKENIZER.encode("go dragon") == [10, 1]


@pytest.mark.parametrize("word", ["", "go to", " go", "<act>", "x<end>"])
def test_what_cannot_be_one_word_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="not a word"):
        word_tokenizer(["go", word])


def test_transformers_saves_what_it_opened_as_it_was(tmp_path: Path) -> None:
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


def test_what_is_not_of_words_is_not_read(tmp_path: Path) -> None:
    assert word_ids(tmp_path) is None
    for text in ("{", "[]", "{}", '{"model": {"type": "BPE", "vocab": {}}, "added_tokens": []}'):
        (tmp_path / "tokenizer.json").write_text(text)
        assert word_ids(tmp_path) is None
    other = '{"model": {"type": "WordLevel", "vocab": {"go": 0}}, "added_tokens": []}'
    (tmp_path / "tokenizer.json").write_text(other)
    assert word_ids(tmp_path) is None


def test_a_chat_only_ever_grows() -> None:
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
