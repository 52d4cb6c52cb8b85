from agentrl_envs.environments.babyai.actions import Refusal, refusal, sight
from agentrl_envs.environments.babyai.field_of_view import look
from agentrl_envs.environments.babyai.text_terse import Terse

FORM = Terse()


def menu_of(game):
    view = look(game)
    return sight(view, tuple(map(FORM.name, view.things)), "pick up")


def test_an_empty_corridor_offers_three_moves(layout):
    assert list(menu_of(layout(["#####", "#>..#", "#####"])).menu) == [
        "turn left",
        "turn right",
        "move forward",
    ]


def test_a_ball_can_be_gone_to_and_picked_up(layout):
    seen = menu_of(layout(["#####", "#>.b#", "#####"], b="red ball"))
    assert list(seen.menu)[3:] == ["go to red ball 1", "pick up red ball 1"]
    assert seen.menu["pick up red ball 1"].steps == (2, 3)


def test_where_the_agent_is_already_it_cannot_go(layout):
    seen = menu_of(layout(["####", "#>b#", "####"], b="red ball"))
    assert list(seen.menu) == ["turn left", "turn right", "pick up red ball 1"]
    assert refusal(seen, "go to red ball 1", "pick up") is Refusal.NO_CHANGE


def test_full_hands_pick_up_nothing_and_can_drop(layout):
    seen = menu_of(layout(["#####", "#>.b#", "#####"], b="red ball", carrying="red key"))
    assert list(seen.menu)[2:] == ["move forward", "drop", "go to red ball 1"]
    assert refusal(seen, "pick up red ball 1", "pick up") is Refusal.FULL


def test_nothing_is_dropped_onto_something(layout):
    seen = menu_of(layout(["####", "#>b#", "####"], b="red ball", carrying="red key"))
    assert "drop" not in seen.menu
    assert refusal(seen, "drop", "pick up") is Refusal.NO_ROOM
    bare = menu_of(layout(["####", "#>.#", "####"]))
    assert refusal(bare, "drop", "pick up") is Refusal.EMPTY_HANDED


def test_a_closed_door_is_toggled_and_an_open_one_walked_through(layout):
    rows = ["#######", "#>.d..#", "#######"]
    closed = menu_of(layout(rows, d="red door"))
    assert closed.menu["toggle and go through red door 1"].steps == (2, 5, 2, 2)
    assert refusal(closed, "go through red door 1", "pick up") is Refusal.CLOSED
    opened = menu_of(layout(rows, d="open red door"))
    assert opened.menu["go through red door 1"].steps == (2, 2, 2)
    assert "toggle and go through red door 1" not in opened.menu


def test_a_locked_door_wants_the_key_of_its_colour(layout):
    rows, action = ["#####", "#>d.#", "#####"], "toggle and go through red door 1"
    bare = menu_of(layout(rows, d="locked red door"))
    wrong = menu_of(layout(rows, d="locked red door", carrying="blue key"))
    right = menu_of(layout(rows, d="locked red door", carrying="red key"))
    assert not {"toggle", action} & set(bare.menu)
    assert not {"toggle", action} & set(wrong.menu)
    assert {"toggle", action} <= set(right.menu)
    assert refusal(bare, action, "pick up") is Refusal.NO_KEY
    assert refusal(wrong, action, "pick up") is Refusal.WRONG_KEY


def test_a_box_ahead_can_be_toggled_and_a_ball_cannot(layout):
    assert "toggle" in menu_of(layout(["####", "#>b#", "####"], b="red box")).menu
    assert "toggle" not in menu_of(layout(["####", "#>b#", "####"], b="red ball")).menu


def test_what_cannot_be_reached_is_refused_for_that_reason(layout):
    seen = menu_of(layout(["######", "#>bk##", "######"], b="grey box", k="red key"))
    assert "go to red key 1" not in seen.menu
    assert refusal(seen, "pick up red key 1", "pick up") is Refusal.NO_WAY


def test_nonsense_is_unknown(layout):
    seen = menu_of(layout(["#####", "#>.b#", "#####"], b="red ball"))
    for action in ("", "go to", "go to red ball 2", "fly", "go through red ball 1", "pick up "):
        assert refusal(seen, action, "pick up") is Refusal.UNKNOWN


def test_beyond_the_ninth_things_of_one_name_go_unnamed(layout):
    rows = ["#########", "#.bbbbb.#", "#.bbbbb.#", "#...^...#", "#########"]
    seen = menu_of(layout(rows, b="red ball"))
    assert [label for label in seen.labels if label] == [f"red ball {k}" for k in range(1, 10)]
    assert len(seen.labels) == 10
