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

LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How the tokenizers of Llama 3 split a text into words: punctuation takes the line breaks after
it."""
QWEN2_PATTERN = LLAMA3_PATTERN.replace("{1,3}", "")
"""Likewise, those of Qwen2, Qwen2.5 and Qwen3."""
PATHS_PATTERN = LLAMA3_PATTERN.replace(r"[\r\n]*", r"[\r\n/]*")
"""Likewise, those of GPT-4o's vocabulary (Phi-4-mini): slashes too."""


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


def test_a_reply_also_ends_at_the_tokens_of_the_generation_config(base) -> None:
    """As an instruct model may end a line with the end of text that its base model knows."""
    other = len(base)
    base.add_special_tokens({"additional_special_tokens": ["<|end|>"]})
    dialogue = dialogue_for("react", base, tiny=False, ends=[other, *ReactDialogue(base).stop])
    assert dialogue.stop == (*ReactDialogue(base).stop, other)
    ended = [*dialogue.encode_action("go north"), other]
    assert dialogue.text(ended) == "go north"
    assert dialogue.closing(ended) == []


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


@pytest.fixture(params=[LLAMA3_PATTERN, QWEN2_PATTERN], ids=["llama3", "qwen2"])
def joining(request, make: Make) -> PreTrainedTokenizerFast:
    """A tokenizer with `]\n` and `.\n` as one token each, as these models have."""
    lines = ("search[castle]\n", "search[key]\n", "go north.\n", "look.\n")
    return make(["<|endoftext|>"], None, "<|endoftext|>", pattern=request.param, more=lines)


def test_a_token_of_punctuation_and_a_line_break_ends_a_reply(joining) -> None:
    dialogue = ReactDialogue(joining)
    assert joining.convert_ids_to_tokens(joining.encode("[key]\n"))[-1] == "]Ċ"
    ends = joining.convert_tokens_to_ids(["]Ċ", ".Ċ"])
    assert set(ends) <= set(dialogue.stop)
    assert joining.convert_ids_to_tokens([dialogue.stop[0]]) == ["Ċ"]
    kept = joining.convert_tokens_to_ids(["]", ".", "<|endoftext|>"])
    assert [one in dialogue.stop for one in kept] == [False, False, True]


def test_the_punctuation_of_such_a_token_is_part_of_the_action(joining) -> None:
    dialogue = ReactDialogue(joining)
    assert dialogue.text(joining.encode(" search[castle]\n")) == "search[castle]"
    assert dialogue.text(joining.encode(" go north.\n")) == "go north."
    assert dialogue.text(joining.encode(" go\n")) == "go"


def test_a_reply_that_ends_in_such_a_token_gets_no_second_line_break(joining) -> None:
    dialogue = ReactDialogue(joining)
    reply = joining.encode(" search[castle]\n")
    after = joining.encode("Observation: look\nAction:")
    assert dialogue.following(reply, "look") == after
    assert dialogue.closing(reply) == []


def test_text_after_the_line_break_of_a_token_is_no_part_of_the_action(make: Make) -> None:
    lines = ("go north.\n/", "look.\n/")
    slashes = make(["<|endoftext|>"], None, "<|endoftext|>", pattern=PATHS_PATTERN, more=lines)
    dialogue = ReactDialogue(slashes)
    reply = slashes.encode(" go north.\n/")
    assert slashes.convert_ids_to_tokens(reply)[-1] == ".Ċ/"
    assert reply[-1] in dialogue.stop
    assert dialogue.text(reply) == "go north."
    # The line of the slash is not ended.
    assert dialogue.following(reply, "look")[0] == dialogue.stop[0]
    assert dialogue.closing(reply) == []
