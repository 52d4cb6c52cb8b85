"""AgentGym's BabyAI: recorded facts, and one test for each of its defects that is fixed here.

The comparison with AgentGym's own code is in tests/envs/agentgym."""

import hashlib
import random

import pytest

from agentrl_envs.conformance.check import check
from agentrl_envs.env import split_exchange, split_of
from agentrl_envs.environments.babyai import BabyAIOptions, BabyAITasks
from agentrl_envs.environments.babyai.published.ids import data_ids, level_and_seed
from agentrl_envs.environments.babyai.published.menu import menu
from agentrl_envs.environments.babyai.published.sight import see
from agentrl_envs.errors import SessionError

PUBLISHED = {"text": "agentgym", "compat": "agentgym"}
TASKS = BabyAITasks(BabyAIOptions(**PUBLISHED, ids="agentgym"))
OTHERS = ("", "check", "dance", "toggle", "drop", "move forward", "pick up red ball 1")
GOLDEN = "4dc81cdf303b1eb6"
"""Hash of the 409 observations below. The same games equal AgentGym's, byte by byte."""


def session(level):
    tasks = BabyAITasks(BabyAIOptions(**PUBLISHED, levels=(level,)))
    return tasks, tasks.environment()


def solved_by_one_action(tasks, env, start="pickup"):
    """A task that one action solves, and that action."""
    for index in range(200):
        task = tasks.task("train", index)
        for action in env.reset(task).admissible:
            env.reset(task)
            if action.startswith(start) and env.step(action).success:
                return task, action
    raise AssertionError("no such task")


def test_the_observations_of_recorded_games_are_unchanged():
    env, draws, digest, count = TASKS.environment(), random.Random(7), hashlib.sha256(), 0
    for index in range(0, 90, 3):
        seen = env.reset(TASKS.task("heldout", index))
        digest.update(seen.text.encode())
        count += 1
        for _ in range(20):
            offered = draws.random() < 0.9
            action = draws.choice(seen.admissible if offered else OTHERS)
            step = env.step(f"Action: {action}")
            seen, count = step.observation, count + 1
            digest.update(f"{seen.text}{step.reward}".encode())
            if step.terminated or step.truncated:
                break
    assert (count, digest.hexdigest()[:16]) == (409, GOLDEN)


def test_the_published_game_keeps_the_contract():
    assert check(TASKS, tasks=6).failed() == {}


def test_an_id_of_the_data_set_names_the_level_by_its_remainder_and_the_seed_by_its_quotient():
    # 1807 = 45 * 40 + 7, and the level at position 7 is the eighth of AgentGym's list.
    assert level_and_seed(1807) == ("BabyAI-GoToSeqS5R2-v0", 45)
    assert level_and_seed(35) == ("BabyAI-SynthLoc-v0", 0)
    task = TASKS.task("heldout", data_ids("heldout").index(1807))
    expected = {"level": "BabyAI-GoToSeqS5R2-v0", "seed": 45, "data_idx": 1807}
    assert (task.payload, task.category) == (expected, "GoTo")


def test_the_test_split_has_the_counts_of_the_paper_and_shares_no_task_with_training():
    heldout = [TASKS.task("heldout", index) for index in range(90)]
    categories = [task.category for task in heldout]
    counts = {name: categories.count(name) for name in dict.fromkeys(categories)}
    assert counts == {"GoTo": 55, "Pickup": 15, "AOD": 5, "Find": 5, "Room": 5, "SLoc": 5}
    train = {TASKS.task("train", index).id for index in range(TASKS.size("train"))}
    assert not train & {task.id for task in heldout}
    assert {split_of(task_id) for task_id in train} == {"train"}
    assert len({task.id for task in heldout}) == TASKS.size("heldout") == 90


def test_the_prompt_is_a_user_message_with_a_reply():
    message, reply = split_exchange(TASKS.instructions())
    assert "- pickup <obj> <id>" in message
    assert "pick up <obj>" not in message
    assert reply.startswith("OK")


def test_a_bare_reply_is_an_action_only_if_the_menu_has_it():
    env = TASKS.environment()
    env.reset(TASKS.task("heldout", 0))
    assert env.step("turn left").wellformed
    step = env.step("Turn left!")
    assert not step.wellformed
    assert step.observation.text.startswith("No change in state.\nAvailable actions: [")


def test_a_step_before_reset_is_an_error():
    with pytest.raises(SessionError, match="before reset"):
        TASKS.environment().step("turn left")


# Behaviour of AgentGym that is kept, because its observations must be equal.


def test_any_text_with_check_lists_the_actions():
    env = TASKS.environment()
    seen = env.reset(TASKS.task("heldout", 0))
    listed = env.step("Action: please check it").observation.text
    assert listed.startswith("You can take the following actions: " + ", ".join(seen.admissible))


def test_a_door_is_passed_to_its_own_cell_only():
    tasks, env = session("GoToImpUnlock")
    for index in range(40):
        seen = env.reset(tasks.task("train", index))
        found = [a for a in seen.admissible if a.startswith("toggle and go through")]
        for action in found:
            opened = env.step(f"Action: {action}").observation
            # The agent stands in the door: it is no longer in the view.
            door = action.removeprefix("toggle and go through ").replace("closed", "open")
            assert door.rsplit(" ", 1)[0] not in opened.text
            return
    raise AssertionError("no door in sight")


# Defects of AgentGym that are fixed here.


def test_a_late_success_is_not_revoked():
    tasks, env = session("PickupDist")
    task, action = solved_by_one_action(tasks, env)
    env.reset(task)
    for _ in range(28):
        env.step("turn left")
    step = env.step(action)
    assert step.terminated
    assert step.success
    assert 0.1 <= step.reward == step.raw_score <= 0.5


def test_a_macro_action_stops_at_its_success_so_that_no_later_step_overwrites_it():
    tasks, env = session("OpenDoorColor")
    task, action = solved_by_one_action(tasks, env, "toggle and go through")
    env.reset(task)
    step = env.step(action)
    assert step.success
    assert "The task is completed." in step.observation.text


def test_an_invalid_action_after_a_success_adds_no_reward():
    tasks, env = session("PickupDist")
    task, action = solved_by_one_action(tasks, env)
    env.reset(task)
    env.step(action)
    again = [env.step("Action: dance") for _ in range(3)]
    assert [(step.reward, step.terminated) for step in again] == [(0.0, True)] * 3


def test_the_step_limit_of_minigrid_truncates():
    tasks, env = session("PickupDist")
    env.reset(tasks.task("train", 0))
    steps = [env.step("turn left") for _ in range(49)]
    assert [step.truncated for step in steps] == [False] * 48 + [True]


def test_the_wrong_object_does_not_end_a_strict_level_though_the_text_says_so():
    tasks, env = session("PickupDistDebug")
    for index in range(40):
        task = tasks.task("train", index)
        for action in env.reset(task).admissible:
            if action.startswith("pickup"):
                env.reset(task)
                step = env.step(action)
                if not step.success:
                    assert (step.terminated, step.truncated, step.reward) == (False, False, 0.0)
                    assert "The task is completed." in step.observation.text
                    return
    raise AssertionError("no wrong object in sight")


def test_a_refusal_names_the_number_of_the_door_and_no_python_object(layout):
    game = layout(["#######", "#..db<#", "#######"], b="red ball", d="grey door")
    refusals = menu(see(game, game.image())).refusals
    action = "toggle and go through grey closed door 1"
    assert refusals[action] == f"You cannot {action}, as there is no path leading to it."
