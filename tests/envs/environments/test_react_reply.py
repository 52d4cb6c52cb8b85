import pytest

from agentrl_envs import registry
from agentrl_envs.environments.react_reply import action_of


@pytest.mark.parametrize(
    "reply",
    [
        "move up",
        "Thought: the goal is above\n\nAction:\n  Move   UP\n",
        "**Action:** move up",
        "**Action:**\n**move up**",
        "Action: `move up`",
        'Action: "move up".',
        "Action: move up\nObservation: I am at the goal.",
        "Action: move down\nAction: move up",
        "I will move up.\nAction: move up.",
    ],
)
def test_the_action_is_the_line_after_the_last_marker_without_marks_around_it(reply):
    assert action_of(reply) == "move up"


def test_a_reply_without_words_has_no_action():
    assert action_of("Action:\n```\n```") == action_of("") == ""


@pytest.mark.parametrize(
    ("name", "action"), [("maze", "move up"), ("wordle", "s t o n e")], ids=["maze", "wordle"]
)
@pytest.mark.parametrize("form", ["**Action:** {}", "Action: `{}`", "Action: {}.\nObservation: x"])
def test_a_marked_action_is_played(name, action, form):
    tasks = registry.task_set(name)
    plain, marked = tasks.environment(), tasks.environment()
    for session in (plain, marked):
        session.reset(tasks.task("train", 0))
    assert marked.step(form.format(action)) == plain.step(f"Action: {action}")
