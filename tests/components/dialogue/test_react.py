from __future__ import annotations

from collections.abc import Callable

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from agentrl_components.dialogue.open import dialogue_for
from agentrl_components.dialogue.react import ReactDialogue
from agentrl_components.errors import ModelError

Make = Callable[..., PreTrainedTokenizerFast]


def test_the_opening_has_instructions_an_observation_line_and_an_action_line(base) -> None:
    opened = ReactDialogue(base).opening("Find it.", "look")
    assert base.decode(opened) == "Find it.\n\nObservation: look\nAction:"
    assert base.decode(ReactDialogue(base).opening("", "look")) == "Observation: look\nAction:"


def test_the_opening_starts_with_the_bos_token_if_the_tokenizer_adds_one(make: Make) -> None:
    with_bos = make(["<|begin|>", "<|endoftext|>"], None, "<|endoftext|>", "<|begin|>")
    begin = with_bos.bos_token_id
    assert begin not in ReactDialogue(with_bos).opening("", "look")
    with_bos.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|begin|> $A", special_tokens=[("<|begin|>", begin)]
    )
    ids = ReactDialogue(with_bos).opening("", "look")
    assert ids[0] == begin
    assert ids.count(begin) == 1
    assert begin not in ReactDialogue(with_bos).following([], "look")


def test_stop_tokens_are_the_line_breaks_shortest_first_and_end_of_text(base) -> None:
    stop = ReactDialogue(base).stop
    assert base.convert_ids_to_tokens(list(stop)) == ["Ċ", "ĊĊ", "<|endoftext|>"]


def test_exactly_one_line_break_precedes_an_observation(base) -> None:
    dialogue = ReactDialogue(base)
    line, lines, end = dialogue.stop
    go = dialogue.encode_action("go north")
    after = base.encode("Observation: look\nAction:")
    assert dialogue.following([*go, line], "look") == after
    assert dialogue.following([*go, lines], "look") == after
    assert dialogue.following(go, "look") == [line, *after]
    assert dialogue.following([*go, end], "look") == [line, *after]


def test_only_a_truncated_reply_is_closed(base) -> None:
    dialogue = ReactDialogue(base)
    line, _, end = dialogue.stop
    go = dialogue.encode_action("go")
    assert dialogue.closing(go) == [line]
    assert dialogue.closing([*go, line]) == []
    assert dialogue.closing([*go, end]) == []


def test_an_encoded_action_starts_with_a_space(base) -> None:
    dialogue = ReactDialogue(base)
    ids = dialogue.encode_action("go north")
    assert base.decode(ids) == " go north"
    assert dialogue.text([*ids, dialogue.stop[0]]) == "go north"


def test_end_of_text_in_an_observation_is_not_a_special_token(base) -> None:
    dialogue = ReactDialogue(base)
    assert base.eos_token_id not in dialogue.opening("", "look<|endoftext|>")


def test_a_tokenizer_without_a_line_break_token_is_rejected() -> None:
    model = Tokenizer(WordLevel(vocab={"go": 0, "<unk>": 1}, unk_token="<unk>"))
    words = PreTrainedTokenizerFast(tokenizer_object=model, name_or_path="org/words")
    with pytest.raises(ModelError, match="org/words has no token for a line break"):
        dialogue_for("react", words, tiny=False)
