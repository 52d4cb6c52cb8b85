"""Conversations from a file: both formats, loss weights of the tokens, and errors by line."""

import json

import pytest
import text_episode
from thinking_chat import thinking_tokenizer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from agentrl_components.dialogue.chat import ChatDialogue
from agentrl_components.dialogue.plain import PlainDialogue
from agentrl_components.dialogue.react import ReactDialogue
from agentrl_components.dialogue.word_tokenizer import word_tokenizer
from agentrl_components.errors import SpecError
from agentrl_components.spec import RunSpec
from agentrl_components.warmstart.conversations import (
    conversation_examples,
    conversation_line,
    given_conversations,
)

WORDS = word_tokenizer(("look", "door", "left", "push", "walk"))
DIALOGUE = PlainDialogue(WORDS.get_vocab())
SPEC = RunSpec.model_validate(
    {
        "model": {"context": 64},
        "environments": [{"name": "corridor", "builtin": "corridor"}],
        "horizon": {"phases": [{"maxTurns": 1, "iterations": 1}]},
    }
)
MESSAGES = [("user", "door left"), ("assistant", "left"), ("user", "door"), ("assistant", "push")]


def react_dialogue():
    """A dialogue of lines with a token per byte."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    model = Tokenizer(models.BPE({byte: i for i, byte in enumerate(sorted(alphabet))}, []))
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    return ReactDialogue(PreTrainedTokenizerFast(tokenizer_object=model))


def read(tmp_path, *lines, observation_weight=0.5, dialogue=DIALOGUE, context=64):
    path = tmp_path / "conversations.jsonl"
    path.write_text(
        "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    )
    return conversation_examples(given(path), dialogue, context, observation_weight)


def given(path):
    warm = {"algorithm": "sft", "trajectories": f"file://{path}"}
    return given_conversations(RunSpec.model_validate(SPEC.model_dump() | {"warm_start": warm}))


def test_an_episode_becomes_an_imitation_example(tmp_path):
    episode = text_episode.episode(("door left", "left", 0.0, True), ("door", "push", 1.0, True))
    (imitated,) = read(tmp_path, conversation_line(episode))
    written = {"messages": [{"role": role, "content": text} for role, text in MESSAGES]}
    (expected,) = read(tmp_path, written)
    assert list(imitated.ids) == list(expected.ids)


def test_the_example_of_an_episode_includes_its_instructions(tmp_path):
    (imitated,) = read(
        tmp_path, conversation_line(text_episode.episode(("door left", "left", 0.0, True)), "walk")
    )
    opening = DIALOGUE.opening("walk", "door left")
    assert imitated.ids[: len(opening)].tolist() == opening


def test_both_formats_give_the_same_example(tmp_path):
    ours = {"messages": [{"role": r, "content": c} for r, c in [("system", "walk"), *MESSAGES]]}
    agentgym = {
        "conversations": [
            {"from": {"user": "human", "assistant": "gpt"}.get(r, r), "value": c}
            for r, c in [("system", "walk"), *MESSAGES]
        ]
    }
    first, second = read(tmp_path, ours, "", agentgym)
    assert first.ids.tolist() == second.ids.tolist()
    opening = DIALOGUE.opening("walk", "door left")
    reply = [*DIALOGUE.encode_action("left"), DIALOGUE.stop[0]]
    following = DIALOGUE.following(reply, "door")
    last = [*DIALOGUE.encode_action("push"), DIALOGUE.stop[0]]
    assert first.ids.tolist() == [*opening, *reply, *following, *last]
    weights = [0.5] * len(opening) + [1.0] * 2 + [0.5] * len(following) + [1.0] * 2
    assert first.columns["weight"].tolist() == weights[1:]
    assert first.sampled.tolist() == list(range(1, len(first.ids)))


def test_a_reply_whose_loss_is_false_is_not_imitated(tmp_path):
    losses = (None, False, None, True)
    agentgym = [
        {"from": {"user": "human", "assistant": "gpt"}[role], "loss": loss, "value": text}
        for (role, text), loss in zip(MESSAGES, losses, strict=True)
    ]
    ours = [
        {"role": role, "content": text, "loss": loss}
        for (role, text), loss in zip(MESSAGES, losses, strict=True)
    ]
    first, second = read(tmp_path, {"conversations": agentgym}, {"messages": ours})
    for example in (first, second):
        seen = len(DIALOGUE.opening("", "door left"))
        reply = [*DIALOGUE.encode_action("left"), DIALOGUE.stop[0]]
        following = len(DIALOGUE.following(reply, "door"))
        weights = [0.5] * seen + [0.0] * 2 + [0.5] * following + [1.0] * 2
        assert example.columns["weight"].tolist() == weights[1:]


def test_a_conversation_without_anything_to_imitate_is_an_error(tmp_path):
    line = {"messages": [{"role": r, "content": c, "loss": False} for r, c in MESSAGES]}
    assert len(read(tmp_path, line)) == 1  # observations have a weight
    with pytest.raises(SpecError, match='line 1: every reply has "loss": false; leave'):
        read(tmp_path, line, observation_weight=0.0)


def test_every_invalid_line_is_named(tmp_path):
    number = {"messages": [{"role": "user", "content": 3}]}
    with pytest.raises(SpecError) as error:
        read(tmp_path, "{", {"messages": []}, {"other": 1}, [], 7, number)
    mistakes = error.value.mistakes
    assert [line.split(": ")[1] for line in mistakes] == [f"line {n}" for n in range(1, 7)]
    assert "user and assistant must alternate" in mistakes[1]
    assert "a message of user is 3, which is no text; for the format see docs" in mistakes[5]


def test_characters_that_end_a_line_in_other_formats_are_part_of_a_text(tmp_path):
    folder = tmp_path / "a folder"
    folder.mkdir()
    written = [
        {"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "push"}]}
        for text in ("door\u2028left", "door\u0085", "door\u2029")
    ]
    lines = "\n".join(json.dumps(one, ensure_ascii=False) for one in written)
    (folder / "all.jsonl").write_text(lines, encoding="utf-8")
    found = given(f"{tmp_path}/a%20folder/all.jsonl")
    assert [(one.line, one.turns[0][0]) for one in found] == [
        (1, "door\u2028left"),
        (2, "door\u0085"),
        (3, "door\u2029"),
    ]


def test_a_reply_that_sampling_would_end_early_is_named(tmp_path):
    def line(*replies):
        turns = [(("user", "x"), ("assistant", reply)) for reply in replies]
        return {"messages": [{"role": r, "content": c} for turn in turns for r, c in turn]}

    two_lines = "a\nb"
    given_before = line("b", two_lines)
    given_before["messages"][3]["loss"] = False
    fine = [line("b", " b\n"), given_before]
    assert len(read(tmp_path, *fine, dialogue=react_dialogue())) == 2
    assert len(read(tmp_path, line(two_lines))) == 1  # a line break ends no reply of `plain`
    with pytest.raises(SpecError) as error:
        read(tmp_path, line("b", two_lines), *fine, dialogue=react_dialogue())
    (mistake,) = error.value.mistakes
    assert "line 1: reply 2 has a token that ends a reply; with model.template react" in mistake


def test_replies_without_thoughts_are_named_where_the_template_always_asks_for_them(tmp_path):
    def line(reply):
        turn = [{"role": "user", "content": "x"}, {"role": "assistant", "content": reply}]
        return {"messages": [*turn, *turn]}

    thinks = {"dialogue": ChatDialogue(thinking_tokenizer()), "context": 256}
    fine = [line("a\n</think>\n\ngo"), line("a</think>go")]
    given_before = {"role": "assistant", "content": "go", "loss": False}
    fine[1]["messages"][1] = given_before
    assert len(read(tmp_path, fine[0], **thinks)) == 1
    assert len(read(tmp_path, line("go left"))) == 1  # `plain` asks for no thoughts
    with pytest.raises(SpecError) as error:
        read(tmp_path, line("go left"), *fine, line("<think>a</think>go"), **thinks)
    first, second = error.value.mistakes
    assert "line 1: reply 1 has no </think>: the chat template always asks for thoughts" in first
    assert "line 4: reply 1 begins with <think>, which the chat template writes" in second


def test_every_conversation_that_does_not_fit_is_named(tmp_path):
    long = {
        "messages": [
            {"role": "user", "content": "door " * 80},
            {"role": "assistant", "content": "left"},
        ]
    }
    fits = {"messages": [{"role": role, "content": text} for role, text in MESSAGES]}
    with pytest.raises(SpecError) as error:
        read(tmp_path, long, fits, "", long)
    mistakes = error.value.mistakes
    assert [line.split(": ")[1] for line in mistakes] == ["line 1", "line 4"]
    assert all("do not fit spec.model.context" in line for line in mistakes)


def test_an_empty_or_missing_file_is_an_error(tmp_path):
    with pytest.raises(SpecError, match="contains no conversation"):
        read(tmp_path)
    with pytest.raises(SpecError, match="cannot be read"):
        given(tmp_path / "none.jsonl")
