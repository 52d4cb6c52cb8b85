import random

import pytest

from agentrl_envs.environments.babyai.field_of_view import look
from agentrl_envs.environments.babyai.level import build
from agentrl_envs.environments.babyai.pathfinding import approach

LEFT, RIGHT, FORWARD = 0, 1, 2


def path_to(game, index=0):
    view = look(game)
    return approach(view.free, view.things[index].cell)


def test_path_stops_one_cell_before_the_object(layout):
    assert path_to(layout(["######", "#>..b#", "######"], b="red ball")) == (FORWARD, FORWARD)


def test_path_to_a_faced_object_is_empty(layout):
    assert path_to(layout(["####", "#>b#", "####"], b="red ball")) == ()


def test_path_to_an_object_beside_the_agent_is_a_turn(layout):
    assert path_to(layout(["####", "#b.#", "#>.#", "####"], b="red ball")) == (LEFT,)


def test_path_leads_around_an_obstacle(layout):
    rows = ["######", "#>bk.#", "#....#", "######"]
    path = path_to(layout(rows, b="grey box", k="red key"), 1)
    assert path == (RIGHT, FORWARD, LEFT, FORWARD, FORWARD, LEFT)


def test_enclosed_object_has_no_path(layout):
    assert path_to(layout(["######", "#>bk##", "######"], b="grey box", k="red key"), 1) is None


def test_path_does_not_lead_through_a_closed_door(layout):
    # AgentGym walks into closed doors.
    game = layout(["#######", "#>...b#", "#######"], b="red ball")
    assert path_to(game) == (FORWARD, FORWARD, FORWARD)
    blocked = layout(["#######", "#>.d..#", "#..#.b#", "#######"], d="red door", b="red ball")
    assert [t.kind for t in look(blocked).things] == ["door"]


@pytest.mark.parametrize("level", ["ActionObjDoor-v0", "GoToSeqS5R2-v0", "PickupLoc-v0"])
def test_path_ends_facing_the_object(level):
    game = build(f"BabyAI-{level}")
    paths = 0
    for seed in range(15):
        game.reset(seed=seed)
        things = look(game).things
        for index in range(len(things)):
            game.reset(seed=seed)
            view = look(game)
            path = approach(view.free, view.things[index].cell)
            for primitive in path or ():
                game.step(primitive)
            if path is not None:
                assert game.grid.get(*game.front_pos) is view.things[index].it
                paths += 1
    assert paths > 15


def test_cached_path_equals_the_computed_path():
    rng = random.Random(1)
    for _ in range(50):
        free, target = rng.getrandbits(49) | 8, rng.randrange(49)
        assert approach(free, target) == approach.__wrapped__(free, target)
