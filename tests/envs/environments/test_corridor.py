import random

import pytest

from agentrl_envs.env import Environment, Split, Task, TaskSet, content_id
from agentrl_envs.environments.corridor import (
    VERBS,
    CorridorEnvironment,
    CorridorOptions,
    CorridorTasks,
)
from agentrl_envs.errors import TaskError


def corridor(cells: int, start: int, side: str, colour: str) -> Task:
    payload = {"cells": cells, "start": start, "side": side, "colour": colour}
    return Task(id=content_id("corridor", payload), category="walk", payload=payload)


def best_action(text: str) -> str:
    words = text.split()
    where, colour = words[4], words[2]
    return VERBS[colour] if where == "here" else where


def test_right_verb_at_the_door_solves_the_task():
    environment = CorridorEnvironment()
    seen = environment.reset(corridor(5, 2, "left", "red"))
    assert seen.text == "corridor 5 red door left 2"
    assert seen.admissible == ("left", "right")

    first = environment.step("left")
    assert first.observation.text == "corridor 5 red door left 1"
    assert (first.reward, first.terminated, first.success) == (0.0, False, False)

    second = environment.step("left")
    assert second.observation.text == "corridor 5 red door here"
    assert second.observation.admissible == ("push", "pull")

    last = environment.step("push")
    assert last.observation.text == "door opens"
    assert (last.reward, last.terminated, last.truncated) == (1.0, True, False)
    assert last.success is True


def test_wrong_verb_jams_the_door_and_terminates_without_reward():
    environment = CorridorEnvironment()
    environment.reset(corridor(4, 2, "right", "blue"))
    environment.step("right")
    last = environment.step("push")
    assert last.observation.text == "door jams"
    assert (last.reward, last.terminated, last.success) == (0.0, True, False)


def test_turn_limit_truncates_and_does_not_terminate():
    environment = CorridorEnvironment(turns=2)
    environment.reset(corridor(5, 2, "left", "red"))
    assert not environment.step("right").truncated
    last = environment.step("left")
    assert (last.terminated, last.truncated) == (False, True)


def test_walking_into_a_wall_is_not_admissible():
    environment = CorridorEnvironment()
    environment.reset(corridor(4, 2, "left", "green"))
    at_the_wall = environment.step("right").observation
    assert at_the_wall.admissible == ("left",)
    step = environment.step("right")
    assert step.wellformed is False
    assert step.observation.text == "not an action here . say one of left"


def test_optimal_policy_solves_every_task_in_two_to_four_turns():
    tasks = CorridorTasks()
    environment = tasks.environment()
    splits: tuple[Split, ...] = ("train", "heldout")
    for split in splits:
        for index in range(tasks.size(split)):
            text = environment.reset(tasks.task(split, index)).text
            turns = 0
            while turns < 4:
                turns += 1
                step = environment.step(best_action(text))
                text = step.observation.text
                if step.terminated:
                    break
            assert step.success, tasks.task(split, index)
            assert turns >= 2


def test_random_policy_solves_about_one_task_in_five():
    tasks, draws = CorridorTasks(), random.Random(0)
    environment = tasks.environment()
    solved = 0
    for index in range(4000):
        offered = environment.reset(tasks.task("train", index)).admissible
        step = None
        while step is None or not (step.terminated or step.truncated):
            assert offered
            step = environment.step(draws.choice(offered))
            offered = step.observation.admissible
        solved += step.success
    assert 0.19 < solved / 4000 < 0.25


def test_there_are_120_tasks_in_two_splits():
    tasks = CorridorTasks()
    assert tasks.size("train") == 97
    assert tasks.size("heldout") == 23


def test_start_outside_the_corridor_raises_task_error_with_the_field():
    with pytest.raises(TaskError, match=r"payload\.start: cell 9 is outside a corridor of 5"):
        CorridorEnvironment().reset(corridor(5, 9, "left", "red"))


def test_corridor_implements_the_protocols():
    assert isinstance(CorridorTasks(CorridorOptions(turns=3)), TaskSet)
    assert isinstance(CorridorEnvironment(), Environment)
