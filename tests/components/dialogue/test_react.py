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


def test_a_prompt_is_instructions_and_lines(base) -> None:
    opened = ReactDialogue(base).opening("Find it.", "look")
    assert base.decode(opened) == "Find it.\n\nObservation: look\nAction:"
    assert base.decode(ReactDialogue(base).opening("", "look")) == "Observation: look\nAction:"


def test_a_text_begins_with_the_token_that_the_tokenizer_puts_there(make: Make) -> None:
    marked = make(["<|begin|>", "<|endoftext|>"], None, "<|endoftext|>", "<|begin|>")
    begin = marked.bos_token_id
    assert begin not in ReactDialogue(marked).opening("", "look")
    marked.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|begin|> $A", special_tokens=[("<|begin|>", begin)]
    )
    ids = ReactDialogue(marked).opening("", "look")
    assert ids[0] == begin
    assert ids.count(begin) == 1
    assert begin not in ReactDialogue(marked).following([], "look")


def test_a_line_break_ends_a_reply_the_plainest_first(base) -> None:
    stop = ReactDialogue(base).stop
    assert base.convert_ids_to_tokens(list(stop)) == ["Ċ", "ĊĊ", "<|endoftext|>"]


def test_what_follows_begins_a_new_line_exactly_once(base) -> None:
    dialogue = ReactDialogue(base)
    line, lines, end = dialogue.stop
    go = dialogue.encode_action("go north")
    after = base.encode("Observation: look\nAction:")
    assert dialogue.following([*go, line], "look") == after
    assert dialogue.following([*go, lines], "look") == after
    assert dialogue.following(go, "look") == [line, *after]
    assert dialogue.following([*go, end], "look") == [line, *after]


def test_only_a_reply_that_was_cut_is_closed(base) -> None:
    dialogue = ReactDialogue(base)
    line, _, end = dialogue.stop
    go = dialogue.encode_action("go")
    assert dialogue.closing(go) == [line]
    assert dialogue.closing([*go, line]) == []
    assert dialogue.closing([*go, end]) == []


def test_an_action_begins_with_the_space_after_the_colon(base) -> None:
    dialogue = ReactDialogue(base)
    ids = dialogue.encode_action("go north")
    assert base.decode(ids) == " go north"
    assert dialogue.text([*ids, dialogue.stop[0]]) == "go north"


def test_an_end_of_text_spelled_in_an_observation_is_only_text(base) -> None:
    dialogue = ReactDialogue(base)
    assert base.eos_token_id not in dialogue.opening("", "look<|endoftext|>")


def test_a_tokenizer_without_line_breaks_is_refused() -> None:
    model = Tokenizer(WordLevel(vocab={"go": 0, "<unk>": 1}, unk_token="<unk>"))
    words = PreTrainedTokenizerFast(tokenizer_object=model, name_or_path="org/words")
    with pytest.raises(ModelError, match="org/words has no token for a line break"):
        dialogue_for("react", words, tiny=False)
