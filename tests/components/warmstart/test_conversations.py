"""Conversations from a file: both formats, loss weights of the tokens, and errors by line."""

import json

import pytest
import text_episode

from agentrl_components.dialogue.plain import PlainDialogue
from agentrl_components.dialogue.word_tokenizer import word_tokenizer
from agentrl_components.errors import SpecError
from agentrl_components.spec import RunSpec
from agentrl_components.warmstart.conversations import conversation_line, conversations

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


def read(tmp_path, *lines):
    path = tmp_path / "conversations.jsonl"
    path.write_text(
        "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    )
    return conversations(f"file://{path}", DIALOGUE, SPEC, 0.5)


def test_an_episode_becomes_an_imitation_example(tmp_path):
    episode = text_episode.episode(("door left", "left", 0.0, True), ("door", "push", 1.0, True))
    (imitated,) = read(tmp_path, conversation_line(episode))
    given = {"messages": [{"role": role, "content": text} for role, text in MESSAGES]}
    (expected,) = read(tmp_path, given)
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


def test_every_invalid_line_is_named(tmp_path):
    long = {
        "messages": [
            {"role": "user", "content": "door " * 80},
            {"role": "assistant", "content": "left"},
        ]
    }
    with pytest.raises(SpecError) as error:
        read(tmp_path, "{", {"messages": []}, {"other": 1}, long)
    mistakes = error.value.mistakes
    assert [line.split(": ")[1] for line in mistakes] == ["line 1", "line 2", "line 3", "line 4"]
    assert "user and assistant must alternate" in mistakes[1]
    assert "do not fit spec.model.context" in mistakes[3]


def test_an_empty_or_missing_file_is_an_error(tmp_path):
    with pytest.raises(SpecError, match="contains no conversation"):
        read(tmp_path)
    with pytest.raises(SpecError, match="cannot be read"):
        conversations(f"file://{tmp_path}/none.jsonl", DIALOGUE, SPEC, 0.5)
