import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl_envs.environments.textcraft.reply_parser import Craft, Get, Look, Unreadable, read


@pytest.mark.parametrize(
    ("reply", "command"),
    [
        ("get 3 oak logs", Get("oak_logs", 3)),
        ("get oak logs", Get("oak_logs", None)),
        ("inventory", Look()),
        ("craft 4 stick using 2 oak planks", Craft("stick", 4, {"oak_planks": 2})),
        ("craft sign using 6 planks, 1 stick", Craft("sign", None, {"planks": 6, "stick": 1})),
        ("craft sign using 6 planks 1 stick", Craft("sign", None, {"planks": 6, "stick": 1})),
        ("craft plate", Craft("plate", None, None)),
        ("craft 1 plate", Craft("plate", 1, None)),
    ],
)
def test_bare_command_is_parsed(reply, command):
    assert read(reply) == command


def test_action_of_a_react_reply_is_parsed():
    assert read("Thought: I need wood.\nAction: get 3 oak logs") == Get("oak_logs", 3)
    assert read("Thought:\nwood\n\nAction:\nget 3 oak logs\n") == Get("oak_logs", 3)


def test_reply_with_two_actions_is_refused_with_the_message_of_agentgym():
    assert read("Action: inventory\nAction: inventory") == Unreadable(
        "Error: Only one 'Action' is allowed per response. Please adjust your response."
    )


def test_parser_ignores_case_quotes_and_the_minecraft_prefix():
    assert read("Action: `Get 1 minecraft:iron_nugget`.") == Get("iron_nugget", 1)
    assert read('Action: "Inventory"') == Look()
    assert read("Action: **get 1 iron nugget**") == Get("iron_nugget", 1)


def test_counts_of_an_ingredient_named_twice_are_added():
    assert read("craft block using 1 iron, 1 iron") == Craft("block", None, {"iron": 2})


@pytest.mark.parametrize("count", ["0", "1000", "9" * 500])
def test_count_outside_1_to_999_is_unreadable(count):
    command = read(f"Action: get {count} diamond")
    assert isinstance(command, Unreadable)
    assert command.message.startswith("Wrong item format: ")


def test_ingredient_without_a_count_is_unreadable():
    assert read("craft 1 stick using planks") == Unreadable(
        "Wrong item format: planks. Write a count from 1 to 999, then the item."
    )


@pytest.mark.parametrize("reply", ["inventory of mine", "get", "fly", "Action: dance"])
def test_incomplete_or_unknown_command_is_unreadable(reply):
    command = read(reply)
    assert isinstance(command, Unreadable)
    assert command.message.startswith("Could not execute ")
    assert "get [count] [item]" in command.message


@pytest.mark.parametrize("reply", ["", "   ", "Action:", "Thought: hm\nAction:  "])
def test_empty_action_is_unreadable_with_an_example(reply):
    command = read(reply)
    assert isinstance(command, Unreadable)
    assert "Action: get 1 diamond" in command.message


@given(st.text())
def test_parser_never_raises(reply):
    read(reply)
    read(f"Action: {reply}")
    read(f"craft {reply} using {reply}")
    read(f"get 1 {reply}")
