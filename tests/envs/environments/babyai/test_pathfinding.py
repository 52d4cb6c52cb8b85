import random

import pytest

from agentrl_envs.environments.babyai.field_of_view import look
from agentrl_envs.environments.babyai.level import build
from agentrl_envs.environments.babyai.pathfinding import approach

LEFT, RIGHT, FORWARD = 0, 1, 2


def way_to(game, index=0):
    view = look(game)
    return approach(view.free, view.things[index].cell)


def test_straight_ahead_stops_one_cell_before(layout):
    assert way_to(layout(["######", "#>..b#", "######"], b="red ball")) == (FORWARD, FORWARD)


def test_what_is_faced_already_needs_no_step(layout):
    assert way_to(layout(["####", "#>b#", "####"], b="red ball")) == ()


def test_a_thing_beside_the_agent_is_faced_by_turning(layout):
    assert way_to(layout(["####", "#b.#", "#>.#", "####"], b="red ball")) == (LEFT,)


def test_the_way_leads_around_an_obstacle(layout):
    rows = ["######", "#>bk.#", "#....#", "######"]
    way = way_to(layout(rows, b="grey box", k="red key"), 1)
    assert way == (RIGHT, FORWARD, LEFT, FORWARD, FORWARD, LEFT)


def test_a_walled_in_thing_has_no_way(layout):
    assert way_to(layout(["######", "#>bk##", "######"], b="grey box", k="red key"), 1) is None


def test_no_way_leads_through_a_closed_door(layout):
    # Upstream walked into closed doors.
    game = layout(["#######", "#>...b#", "#######"], b="red ball")
    assert way_to(game) == (FORWARD, FORWARD, FORWARD)
    blocked = layout(["#######", "#>.d..#", "#..#.b#", "#######"], d="red door", b="red ball")
    assert [t.kind for t in look(blocked).things] == ["door"]


@pytest.mark.parametrize("level", ["ActionObjDoor-v0", "GoToSeqS5R2-v0", "PickupLoc-v0"])
def test_a_way_ends_facing_the_thing(level):
    game = build(f"BabyAI-{level}")
    walked = 0
    for seed in range(15):
        game.reset(seed=seed)
        things = look(game).things
        for index in range(len(things)):
            game.reset(seed=seed)
            view = look(game)
            way = approach(view.free, view.things[index].cell)
            for primitive in way or ():
                game.step(primitive)
            if way is not None:
                assert game.grid.get(*game.front_pos) is view.things[index].it
                walked += 1
    assert walked > 15


def test_the_same_sight_gives_the_same_way():
    rng = random.Random(1)
    for _ in range(50):
        free, target = rng.getrandbits(49) | 8, rng.randrange(49)
        assert approach(free, target) == approach.__wrapped__(free, target)
