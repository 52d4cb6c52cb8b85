from agentrl_envs.environments.babyai.actions import Refusal, refusal, sight
from agentrl_envs.environments.babyai.field_of_view import look
from agentrl_envs.environments.babyai.text_terse import Terse

FORM = Terse()


def menu_in(game):
    view = look(game)
    return sight(view, tuple(map(FORM.name, view.things)), "pick up")


def test_empty_corridor_offers_two_turns_and_forward(layout):
    assert list(menu_in(layout(["#####", "#>..#", "#####"])).menu) == [
        "turn left",
        "turn right",
        "move forward",
    ]


def test_ball_offers_go_to_and_pick_up(layout):
    seen = menu_in(layout(["#####", "#>.b#", "#####"], b="red ball"))
    assert list(seen.menu)[3:] == ["go to red ball 1", "pick up red ball 1"]
    assert seen.menu["pick up red ball 1"].steps == (2, 3)


def test_go_to_an_object_that_the_agent_faces_is_refused(layout):
    seen = menu_in(layout(["####", "#>b#", "####"], b="red ball"))
    assert list(seen.menu) == ["turn left", "turn right", "pick up red ball 1"]
    assert refusal(seen, "go to red ball 1", "pick up") is Refusal.NO_CHANGE


def test_carrying_agent_can_drop_and_cannot_pick_up(layout):
    seen = menu_in(layout(["#####", "#>.b#", "#####"], b="red ball", carrying="red key"))
    assert list(seen.menu)[2:] == ["move forward", "drop", "go to red ball 1"]
    assert refusal(seen, "pick up red ball 1", "pick up") is Refusal.FULL


def test_drop_needs_a_free_cell_and_a_carried_object(layout):
    seen = menu_in(layout(["####", "#>b#", "####"], b="red ball", carrying="red key"))
    assert "drop" not in seen.menu
    assert refusal(seen, "drop", "pick up") is Refusal.NO_ROOM
    bare = menu_in(layout(["####", "#>.#", "####"]))
    assert refusal(bare, "drop", "pick up") is Refusal.EMPTY_HANDED


def test_closed_door_is_toggled_and_open_door_is_walked_through(layout):
    rows = ["#######", "#>.d..#", "#######"]
    closed = menu_in(layout(rows, d="red door"))
    assert closed.menu["toggle and go through red door 1"].steps == (2, 5, 2, 2)
    assert refusal(closed, "go through red door 1", "pick up") is Refusal.CLOSED
    opened = menu_in(layout(rows, d="open red door"))
    assert opened.menu["go through red door 1"].steps == (2, 2, 2)
    assert "toggle and go through red door 1" not in opened.menu


def test_locked_door_needs_the_key_of_its_colour(layout):
    rows, action = ["#####", "#>d.#", "#####"], "toggle and go through red door 1"
    bare = menu_in(layout(rows, d="locked red door"))
    wrong = menu_in(layout(rows, d="locked red door", carrying="blue key"))
    right = menu_in(layout(rows, d="locked red door", carrying="red key"))
    assert not {"toggle", action} & set(bare.menu)
    assert not {"toggle", action} & set(wrong.menu)
    assert {"toggle", action} <= set(right.menu)
    assert refusal(bare, action, "pick up") is Refusal.NO_KEY
    assert refusal(wrong, action, "pick up") is Refusal.WRONG_KEY


def test_box_ahead_can_be_toggled_and_ball_cannot(layout):
    assert "toggle" in menu_in(layout(["####", "#>b#", "####"], b="red box")).menu
    assert "toggle" not in menu_in(layout(["####", "#>b#", "####"], b="red ball")).menu


def test_unreachable_object_is_refused_with_that_reason(layout):
    seen = menu_in(layout(["######", "#>bk##", "######"], b="grey box", k="red key"))
    assert "go to red key 1" not in seen.menu
    assert refusal(seen, "pick up red key 1", "pick up") is Refusal.NO_WAY


def test_unrecognized_action_is_refused_as_unknown(layout):
    seen = menu_in(layout(["#####", "#>.b#", "#####"], b="red ball"))
    for action in ("", "go to", "go to red ball 2", "fly", "go through red ball 1", "pick up "):
        assert refusal(seen, action, "pick up") is Refusal.UNKNOWN


def test_only_nine_objects_of_one_name_get_labels(layout):
    rows = ["#########", "#.bbbbb.#", "#.bbbbb.#", "#...^...#", "#########"]
    seen = menu_in(layout(rows, b="red ball"))
    assert [label for label in seen.labels if label] == [f"red ball {k}" for k in range(1, 10)]
    assert len(seen.labels) == 10
