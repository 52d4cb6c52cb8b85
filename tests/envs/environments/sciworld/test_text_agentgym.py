import pytest

from agentrl_envs.environments.sciworld.text_agentgym import AgentGym
from agentrl_envs.environments.sciworld.text_form import View

FORM, STRICT = AgentGym(strict=False), AgentGym(strict=True)
SHOWN = View(text="shown", menu=None)


@pytest.mark.parametrize(
    ("reply", "command"),
    [
        ("Thought:\nhm.\n\nAction:\nopen door to kitchen", "open door to kitchen"),
        ("Action: look  around\n", "look around"),
        ("Action: wait\nAction: wait1", "wait1"),
        ("Action: 2", "2"),
        ("Action: task</s>", "task"),
    ],
)
def test_the_action_is_what_follows_the_last_mark(reply, command):
    assert FORM.parse(reply, SHOWN).commands == STRICT.parse(reply, SHOWN).commands == (command,)


@pytest.mark.parametrize("reply", ["", "look around", "Thought: Action", "Action:  "])
def test_a_reply_without_an_action_is_explained_and_in_compat_played_as_an_empty_one(reply):
    parsed = FORM.parse(reply, SHOWN)
    assert parsed.commands == ()
    assert parsed.problem.startswith("No action was found. Answer in the form:\nThought:")
    assert STRICT.parse(reply, SHOWN).commands == ("",)


@pytest.mark.parametrize("form", [FORM, STRICT])
@pytest.mark.parametrize("action", ["\x00\x1b[2J", "[" * 2000])
def test_an_action_with_control_characters_or_of_great_length_is_not_played(form, action):
    assert form.parse(f"Action: {action}", SHOWN).commands == ()


def test_upstream_evaluates_code_in_replies_and_here_it_is_a_command_that_nobody_knows():
    command = "__import__('os').getpid()"
    assert FORM.parse(f"Action: {command}", SHOWN).commands == (command,)


def test_objects_of_one_name_are_listed_in_one_order_since_sciworlds_varies():
    look = (
        "In it, you see: \n\ta bowl\n\ta cup (containing red)\n\ta cup (containing blue)\n\ta jug"
    )
    told = FORM.later(look, SHOWN, None).text
    assert told == (
        "In it, you see: \n\ta bowl\n\ta cup (containing blue)\n\ta cup (containing red)\n\ta jug"
    )
