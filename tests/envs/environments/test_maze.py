"""Maze, by LMRL-Gym's rules."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from agentrl_envs import registry
from agentrl_envs.conformance.check import check
from agentrl_envs.environments.maze import MazeOptions, MazeTasks, distance, random_maze
from agentrl_envs.errors import TaskError

LMRL_STARTS = {
    *((1, column) for column in (1, 2, 3, 4, 5, 7, 8, 9, 10, 11)),
    *((2, 3), (3, 3), (4, 3), (5, 3), (5, 4), (5, 5), (5, 6), (6, 6), (7, 6)),
    *((5, 7), (5, 8), (5, 9), (4, 9), (3, 9), (2, 9)),
}
"""The starting cells of AgentGym's server, less the goal."""


@pytest.mark.parametrize("options", [{}, {"layout": "random", "text": "terse", "mazes": 60}])
def test_the_contract_is_kept(options: dict[str, object]):
    factory = partial(registry.task_set, "maze", options)
    report = check(factory(), tasks=8, factory=factory)
    assert report.passed, str(report)


def test_there_is_a_task_for_each_start_of_lmrl_gyms_maze():
    tasks = MazeTasks()
    dealt = [tasks.task(s, i) for s in ("train", "heldout") for i in range(tasks.size(s))]
    assert {tuple(task.payload["start"]) for task in dealt} == LMRL_STARTS
    assert {tuple(task.payload["goal"]) for task in dealt} == {(8, 6)}


def play(start: tuple[int, int], *moves: str, **options: object):
    tasks = MazeTasks(MazeOptions.model_validate(options))
    dealt = [tasks.task(s, i) for s in ("train", "heldout") for i in range(tasks.size(s))]
    (task,) = (task for task in dealt if tuple(task.payload["start"]) == start)
    session = tasks.environment()
    return session.reset(task), [session.step(move) for move in moves]


def test_walls_are_told_as_lmrl_gym_tells_them():
    first, steps = play((5, 6), "move left", "move down", "move right", "move down")
    told = "The goal is at position 8, 6. Your current position is at position "
    assert first.text == f"{told}5, 6. There is a wall above you."
    left, wall, back, down = (step.observation.text for step in steps)
    assert left == f"{told}5, 5. There are walls above you, below you."
    assert wall == left
    assert back == first.text
    assert down == f"{told}6, 6. There are walls to your right, to your left."


def test_the_goal_is_worth_1_and_ends_the_episode():
    _, steps = play((7, 6), "Thought: down.\nAction: move down", "move up")
    assert (steps[0].observation.text, steps[0].reward, steps[0].terminated) == ("Success", 1, True)
    assert (steps[1].reward, steps[1].wellformed) == (0, False)


def test_moves_are_limited_and_moves_into_walls_count():
    _, steps = play((7, 6), "move left", "move left", turn_limit=2)
    assert [step.truncated for step in steps] == [False, True]
    assert steps[1].observation.text == "Failure"


def test_positions_can_be_hidden():
    first, _ = play((1, 1), positions=False)
    assert first.text == "There are walls to your left, above you, below you."


def test_a_random_maze_has_one_way_between_cells():
    rows = random_maze(5, Random(1))
    free = sum(row.count(".") for row in rows)
    assert free == 5 * 5 + (5 * 5 - 1)  # cells, and a gap for each edge of a tree
    assert distance(rows, (1, 1), (9, 9)) >= 16


def test_categories_are_shortest_ways():
    tasks = MazeTasks()
    categories = {tasks.task("train", index).category for index in range(tasks.size("train"))}
    assert categories <= {f"{5 * n + 1} to {5 * n + 5} moves" for n in range(4)}


def test_a_maze_without_a_way_is_refused():
    with pytest.raises(TaskError, match="no way leads"):
        distance(("#####", "#.#.#", "#####"), (1, 1), (1, 3))
