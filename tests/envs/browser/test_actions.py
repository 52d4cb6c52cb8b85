import pytest

from agentrl_envs.browser.actions import (
    Click,
    Goto,
    Hover,
    Plain,
    Press,
    Scroll,
    Stop,
    TabFocus,
    Type,
    parse_action,
    spell,
)


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("click [7]", Click(7)),
        ("click[7]", Click(7)),
        ("hover [7]", Hover(7)),
        ("type [7] [red mug]", Type(7, "red mug", True)),
        ("type [7] [red mug] [1]", Type(7, "red mug", True)),
        ("type [7] [red mug] [0]", Type(7, "red mug", False)),
        ("type [7] [a [b] c] [0]", Type(7, "a [b] c", False)),
        ("type [7] []", Type(7, "", True)),
        ("press [Control+a]", Press("Control+a")),
        ("scroll [down]", Scroll("down")),
        ("scroll up", Scroll("up")),
        ("goto [http://shop.example/a?b=c]", Goto("http://shop.example/a?b=c")),
        ("tab_focus [1]", TabFocus(1)),
        ("new_tab", Plain("new_tab")),
        ("close_tab", Plain("close_tab")),
        ("go_back", Plain("go_back")),
        ("go_forward", Plain("go_forward")),
        ("stop [the answer is [12]]", Stop("the answer is [12]")),
        ("stop []", Stop("")),
        ("stop", Stop("")),
        (" stop [N/A]\n", Stop("N/A")),
    ],
)
def test_actions_are_parsed(text, action):
    assert parse_action(text) == action


@pytest.mark.parametrize(
    "text",
    [
        *("", "click", "click [x]", "click 7 8", "type [7]", "scroll [left]", "goto", "dance"),
        *("go_back [1]", "new_tab now", "[7]", "press []", "[" * 2000, "\x00"),
        "__import__('os').getpid()",
    ],
)
def test_other_texts_are_no_actions(text):
    assert parse_action(text) is None


def test_an_action_is_parsed_from_its_spelling():
    for text in ("click [7]", "type [7] [red mug] [0]", "goto [http://a.example/]", "go_back"):
        action = parse_action(text)
        assert action is not None
        assert spell(action) == text
