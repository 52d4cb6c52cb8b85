"""Replies with thoughts before the action."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from chat_texts import SPECIAL, TEXTS, conversation, rendered
from corridor_rules import RULES
from listening_session import JOB, ListeningSession
from scripted_engine import ScriptedEngine
from thinking_chat import THINKS
from transformers import PreTrainedTokenizerFast

from agentrl_components.dialogue.chat import ChatDialogue
from agentrl_components.dialogue.open import dialogue_of, generation_ends, open_dialogue
from agentrl_components.engines.random_policy import RandomEngine
from agentrl_components.errors import ModelError
from agentrl_components.rollout.episode import play
from agentrl_components.spec import RunSpec

Make = Callable[..., PreTrainedTokenizerFast]

WENT_ON = (
    "<search>capital of France</search><information>Lyon</information>"
    "<think>So it is Lyon.</think><answer>Lyon</answer>"
)
"""A reply that does not stop at its action, but goes on with an answer and a turn of its own."""


def test_qwen3_history_keeps_the_thought_that_its_template_would_strip(qwen3) -> None:
    dialogue = ChatDialogue(qwen3, thinking=True)
    thought = qwen3.encode("<think>\nkey\n</think>\n\ngo<|im_end|>")
    ids = dialogue.opening("Find it.", "look")
    ids += thought + dialogue.following(thought, "open")
    text = "<think>\nkey\n</think>\n\ngo"
    shortened = rendered(qwen3, "Find it.", "look", text, "open")
    assert "key" not in qwen3.decode(shortened)
    assert qwen3.decode(ids) == qwen3.decode(shortened).replace(
        "assistant\ngo", f"assistant\n{text}"
    )


def test_qwen3_conversation_without_thoughts_is_what_its_template_renders(qwen3) -> None:
    appended = conversation(ChatDialogue(qwen3, thinking=True), *TEXTS)
    assert appended == rendered(qwen3, *TEXTS)


def test_an_environment_gets_what_follows_the_thoughts(qwen3) -> None:
    dialogue = ChatDialogue(qwen3, thinking=True)
    assert dialogue.action("<think>\nthe key\n</think>\n\ntake key") == "take key"
    assert dialogue.action("<think>a</think>\n<think>b</think>\ngo") == "go"
    assert dialogue.action("<think>\nthe key, or the") == ""
    assert dialogue.action("take key") == "take key"


@pytest.mark.parametrize("thinking", [False, True])
def test_a_think_block_after_the_beginning_of_a_reply_is_part_of_it(qwen3, thinking) -> None:
    dialogue = ChatDialogue(qwen3, thinking=thinking)
    assert dialogue.action(f"<think>I search.</think>{WENT_ON}") == WENT_ON
    assert dialogue.action(WENT_ON) == WENT_ON
    assert dialogue.action("<search>q</search><think>I wa") == "<search>q</search><think>I wa"
    assert dialogue.action("<think>a</think><think>b") == ""


def test_thoughts_that_the_prompt_begins_end_at_their_first_end(make: Make) -> None:
    dialogue = ChatDialogue(make(SPECIAL, THINKS, "<|im_end|>"))
    assert dialogue.action(f"I search.</think>{WENT_ON}") == WENT_ON
    assert dialogue.action("I <think> so.</think>go</think> left") == "go</think> left"
    assert dialogue.action(f"I search.</think><think>Now.</think>{WENT_ON}") == WENT_ON


def test_a_template_that_always_asks_for_thoughts_has_none_without_their_end(make: Make) -> None:
    for thinking in (False, True):
        dialogue = ChatDialogue(make(SPECIAL, THINKS, "<|im_end|>"), thinking=thinking)
        assert dialogue.action("the key\n</think>\n\ntake key") == "take key"
        assert dialogue.action("the key, or the") == ""


def test_a_template_without_thoughts_is_refused_when_thoughts_are_asked_for(qwen2) -> None:
    with pytest.raises(ModelError, match=r"org/small has no option to think .* `model.thinking: f"):
        ChatDialogue(qwen2, thinking=True)


async def test_an_episode_keeps_the_thoughts_that_the_environment_does_not_get(qwen3) -> None:
    thought = qwen3.encode("<think>\nkey\n</think>\n\ngo<|im_end|>")
    dialogue, session = ChatDialogue(qwen3, thinking=True), ListeningSession(steps=1)
    played = await play(JOB, RULES, 0, session, ScriptedEngine([thought]), dialogue)
    assert session.actions == ["go"]
    assert played.turns[0].action == "<think>\nkey\n</think>\n\ngo"
    sampled = played.ids[played.turns[0].start : played.turns[0].end]
    assert sampled.tolist() == thought


async def test_an_admissible_action_is_played_also_where_the_prompt_asks_for_thoughts(
    make: Make,
) -> None:
    dialogue = ChatDialogue(make(SPECIAL, THINKS, "<|im_end|>"))
    rules, session = replace(RULES, admissible=True), ListeningSession(1, ("go left",))
    await play(JOB, rules, 0, session, RandomEngine(), dialogue)
    assert session.actions == ["go left"]


async def test_a_free_reply_without_the_end_of_its_thoughts_is_an_empty_action(make: Make) -> None:
    """Also where replies are restricted, in a state without a list of actions."""
    tokenizer = make(SPECIAL, THINKS, "<|im_end|>")
    for admissible in (False, True):
        rules, session = replace(RULES, admissible=admissible), ListeningSession(1)
        reply = tokenizer.encode("go left<|im_end|>")
        await play(JOB, rules, 0, session, ScriptedEngine([reply]), ChatDialogue(tokenizer))
        assert session.actions == [""]


def test_restricted_replies_are_refused_where_the_template_always_asks_for_thoughts(
    make: Make, tmp_path: Path
) -> None:
    make(SPECIAL, THINKS, "<|im_end|>").save_pretrained(tmp_path)
    manifest = {
        "model": {"source": "file:///thinking"},
        "environments": [{"name": "corridor", "builtin": "corridor"}],
        "horizon": {"phases": [{"maxTurns": 1, "iterations": 1}]},
    }
    assert dialogue_of(RunSpec.model_validate(manifest), tmp_path).thinks
    restricted = RunSpec.model_validate(manifest | {"rollout": {"actions": "admissible"}})
    with pytest.raises(ModelError, match=r"rollout\.actions: is admissible.* file:///thinking alw"):
        dialogue_of(restricted, tmp_path)


def test_replies_end_at_the_tokens_of_the_generation_config(qwen3, tmp_path: Path) -> None:
    qwen3.save_pretrained(tmp_path)
    assert generation_ends(tmp_path) == ()
    for named, expected in ((7, (7,)), ([7, 8], (7, 8)), (None, ())):
        (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": named}))
        assert generation_ends(tmp_path) == expected
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 8]}))
    assert open_dialogue(tmp_path, "chat", tiny=False).stop[-2:] == (7, 8)
    (tmp_path / "generation_config.json").write_text("not JSON")
    with pytest.raises(ModelError, match=r"generation_config\.json: cannot be read"):
        open_dialogue(tmp_path, "chat", tiny=False)
