import random

import pytest

from agentrl_envs.environments.babyai.field_of_view import look
from agentrl_envs.environments.babyai.level import build


def named(view):
    return [(f"{t.color} {t.kind}", t.ahead, t.side) for t in view.things]


def test_objects_have_offsets_ahead_and_to_the_side(layout):
    game = layout(["#######", "#.b...#", "#>...k#", "#######"], b="red ball", k="blue key")
    assert named(look(game)) == [("red ball", 1, -1), ("blue key", 4, 0)]


def test_offsets_are_relative_to_the_direction_of_the_agent(layout):
    game = layout(["#####", "#..b#", "#.^.#", "#####"], b="red ball")
    assert named(look(game)) == [("red ball", 1, 1)]
    game = layout(["#####", "#b..#", "#.v.#", "#...#", "#####"], b="red ball")
    assert named(look(game)) == []
    game = layout(["#####", "#.<.#", "#b..#", "#####"], b="red ball")
    assert named(look(game)) == [("red ball", 1, -1)]


def test_closed_door_hides_objects_behind_it_and_open_door_does_not(layout):
    rows = ["#######", "#>.d.b#", "#######"]
    assert named(look(layout(rows, d="red door", b="red ball"))) == [("red door", 2, 0)]
    seen = named(look(layout(rows, d="open red door", b="red ball")))
    assert seen == [("red door", 2, 0), ("red ball", 4, 0)]


def test_distance_to_the_barrier_ahead(layout):
    assert look(layout(["#######", "#>....#", "#######"])).wall_ahead == 5
    assert look(layout(["##########", "#>.......#", "##########"])).wall_ahead is None
    assert look(layout(["####", "#>b#", "####"], b="red ball")).wall_ahead == 2


def test_doors_have_a_state(layout):
    rows = ["#####", "#>.d#", "#####"]
    for state in ("open", "closed", "locked"):
        words = "red door" if state == "closed" else f"{state} red door"
        assert look(layout(rows, d=words)).things[0].state == state


@pytest.mark.parametrize(
    "level", ["ActionObjDoor-v0", "UnlockPickup-v0", "GoToObjMazeS7-v0", "OneRoomS20-v0"]
)
def test_view_equals_the_minigrid_observation(level):
    game, rng = build(f"BabyAI-{level}"), random.Random(0)
    for seed in range(6):
        game.reset(seed=seed)
        for _ in range(25):
            game.step(rng.choice([0, 1, 2, 2, 3, 4, 5]))
            grid, mask = game.gen_obs_grid()
            expected = {
                (6 - j, i - 3, grid.get(i, j).type, grid.get(i, j).color)
                for i in range(7)
                for j in range(7)
                if (i, j) != (3, 6) and mask[i, j] and grid.get(i, j)
                if grid.get(i, j).type != "wall"
            }
            view = look(game)
            assert {(t.ahead, t.side, t.kind, t.color) for t in view.things} == expected
            free = {
                (6 - j) * 7 + i
                for i in range(7)
                for j in range(7)
                if (i, j) != (3, 6)
                and mask[i, j]
                and (grid.get(i, j) is None or grid.get(i, j).can_overlap())
            }
            assert {cell for cell in range(49) if view.free >> cell & 1} - {3} == free
