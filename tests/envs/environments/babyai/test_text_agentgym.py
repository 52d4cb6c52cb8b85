"""Observations in AgentGym's words, and one test per defect of AgentGym's BabyAI fixed here."""

import json
import random

import pytest

from agentrl_envs.environments.babyai import BabyAIOptions, BabyAITasks
from agentrl_envs.environments.babyai.actions import Refusal, refusal, sight
from agentrl_envs.environments.babyai.field_of_view import look
from agentrl_envs.environments.babyai.published.text import goal as published_goal
from agentrl_envs.environments.babyai.text_agentgym import AgentGym
from agentrl_envs.errors import TaskError

FORM = AgentGym()


def seen_in(game, form=FORM):
    view = look(game)
    return sight(view, tuple(map(form.name, view.things)), form.take)


def session(compat="none", *levels):
    options = BabyAIOptions(levels=levels or ("agentgym",), text="agentgym", compat=compat)
    tasks = BabyAITasks(options)
    return tasks, tasks.environment()


def one_action_task(tasks, env):
    """A task that one object action solves, and that action."""
    for index in range(200):
        task = tasks.task("train", index)
        for action in env.reset(task).admissible[2:]:
            env.reset(task)
            if env.step(action).success:
                return task, action
    raise AssertionError("no such task")


def test_an_observation_names_objects_with_their_places_the_wall_and_the_actions(layout):
    rows = ["#######", "#.b...#", "#>...d#", "#######"]
    seen = seen_in(layout(rows, b="red ball", d="yellow door"))
    assert FORM.first("go to the red ball", seen) == (
        "Your goal: go to the red ball\n"
        "In front of you in this room, you can see several objects: "
        "There is a red ball 1 1 steps in front of you and 1 steps to your left. "
        "There is a yellow closed door 1 right in front of you 4 steps away. "
        "The room has walls around you. You are facing a wall 5 steps away. "
        "You are not carrying anything.\n"
        'Available actions: ["turn left", "turn right", "move forward", "go to red ball 1", '
        '"pick up red ball 1", "go to yellow closed door 1", '
        '"toggle and go through yellow closed door 1", "check available actions"]'
    )


def test_observation_names_the_barrier_ahead_and_the_carried_object(layout):
    seen = seen_in(layout(["######", "#>..b#", "######"], b="red box", carrying="blue key"))
    text = FORM.later(seen, "")
    assert "You are facing a box 3 steps away. You are carrying a blue key." in text


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("Thought: near.\nAction: go to red ball 1", "go to red ball 1"),
        ("Thought:\nI see it.\n\nAction:\nGo to Red Ball 1.", "go to red ball 1"),
        ("Action: `toggle`\n", "toggle"),
        ("turn left", "turn left"),
        ("Action:", ""),
        ("", ""),
        ("Action: __import__('os').system('x')", "importossystemx"),
    ],
)
def test_reply_is_parsed_and_never_executed(reply, action):
    assert FORM.parse(reply) == action


def test_reply_with_two_actions_is_refused():
    tasks, env = session()
    env.reset(tasks.task("train", 0))
    step = env.step("Action: turn left\nAction: turn right")
    assert not step.wellformed
    assert step.observation.text.startswith(
        "Error: Only one 'Action' is allowed per response. Please adjust your response."
    )


def test_refusal_lists_the_valid_actions():
    tasks, env = session()
    env.reset(tasks.task("train", 0))
    seen = env.step("Action: dance").observation
    message, _, listed = seen.text.partition("\nAvailable actions: ")
    assert message == "The action is not recognized. Please check valid actions."
    assert json.loads(listed) == list(seen.admissible)


def test_relabel_replaces_the_goal():
    text = "Your goal: go to the red ball\nYou cannot see any objects within sight."
    changed = FORM.relabel(text, "open the door")
    assert changed == "Your goal: open the door\nYou cannot see any objects within sight."
    with pytest.raises(TaskError, match="holds no goal"):
        FORM.relabel("You cannot see any objects within sight.", "open the door")


# Defects of AgentGym that are fixed here.


def test_both_spellings_of_pick_up_are_accepted():
    # AgentGym's prompt says "pick up", its environment accepts only "pickup".
    tasks, env = session("none", "GoToLocalS8N7")
    for spelling in ("pick up", "pickup"):
        openings = (env.reset(tasks.task("train", index)) for index in range(20))
        actions = (action for opening in openings for action in opening.admissible)
        found = next(action for action in actions if action.startswith("pick up"))
        assert env.step(f"Action: {found.replace('pick up', spelling)}").wellformed
    assert "- pick up <obj> <id>" in tasks.instructions()


def test_drop_is_documented_in_the_prompt_and_works():
    tasks, env = session("none", "UnlockPickup")
    assert "- drop" in tasks.instructions()
    for index in range(20):
        seen = env.reset(tasks.task("train", index))
        taken = [action for action in seen.admissible if action.startswith("pick up")]
        if taken and "drop" in env.step(taken[0]).observation.admissible:
            assert "not carrying anything" in env.step("Action: drop").observation.text
            return
    raise AssertionError("nothing to drop")


def test_goal_keeps_its_words_of_order_except_in_compat():
    mission = "go to a red ball, then go to the box after you open a door"
    assert FORM.goal(mission) == mission
    # Compat drops them as AgentGym does, for comparison with published numbers.
    assert published_goal(mission) == "go to a red ball, and go to the box and open a door"


@pytest.mark.parametrize("compat", ["none", "agentgym"])
def test_success_after_many_steps_counts(compat):
    # AgentGym discards every success whose reward is 0.5 or less.
    tasks, env = session(compat, "PickupDist")
    task, action = one_action_task(tasks, env)
    env.reset(task)
    for _ in range(28):
        env.step("turn left")
    step = env.step(action)
    assert step.terminated
    assert step.success
    assert 0.1 <= step.raw_score <= 0.5
    assert step.reward == (step.raw_score if compat == "agentgym" else 1.0)


def test_macro_stops_at_the_step_that_succeeds():
    # AgentGym continues through the door after opening it, and loses the success.
    tasks, env = session("none", "OpenDoorColor")
    task, action = one_action_task(tasks, env)
    assert action.startswith("toggle and go through")
    env.reset(task)
    assert env.step(action).success


def test_minigrid_step_limit_truncates_in_compat():
    tasks, env = session("agentgym", "PickupDist")
    env.reset(tasks.task("train", 0))
    steps = [env.step("turn left") for _ in range(49)]
    assert [step.truncated for step in steps] == [False] * 48 + [True]


def test_observation_and_actions_number_objects_alike(layout):
    # AgentGym numbers visible objects and reachable objects separately.
    rows = ["######", "#>kb##", "#..###", "#....#", "#.b..#", "######"]
    seen = seen_in(layout(rows, k="grey box", b="red ball"))
    text = FORM.later(seen, "")
    assert "red ball 1 right in front of you 2 steps away" in text
    assert "red ball 2 1 steps in front of you and 3 steps to your right" in text
    assert "go to red ball 1" not in seen.menu
    assert "go to red ball 2" in seen.menu


def test_refusal_names_the_door(layout):
    game = layout(["######", "#>bd.#", "######"], b="red ball", d="grey door")
    seen = seen_in(game)
    action = "toggle and go through grey closed door 1"
    text = FORM.refused(seen, action, refusal(seen, action, FORM.take))
    assert text.startswith(
        "You cannot toggle and go through grey closed door 1, as there is no path leading to it.\n"
    )


def test_forward_is_not_offered_if_a_ball_is_ahead(layout):
    # AgentGym treats only walls and boxes as barriers.
    seen = seen_in(layout(["#####", "#>b.#", "#####"], b="red ball"))
    assert "move forward" not in seen.menu
    assert refusal(seen, "move forward", FORM.take) is Refusal.BLOCKED


def test_observation_says_that_no_objects_are_in_sight(layout):
    # AgentGym announces several objects and lists none.
    text = FORM.later(seen_in(layout(["#####", "#>..#", "#####"])), "")
    assert text.startswith("You cannot see any objects within sight. The room has walls")


def test_only_check_available_actions_lists_the_actions():
    # AgentGym accepts any text that contains "check".
    tasks, env = session()
    env.reset(tasks.task("train", 0))
    asked = env.step("Action: check available actions")
    assert asked.wellformed
    assert asked.observation.text.startswith("You can take the following actions: turn left, ")
    assert not env.step("Action: checkmate").wellformed


def test_rewards_sum_to_the_score_and_refusals_have_no_reward():
    # AgentGym repeats the last reward with every refused action and adds it to the score.
    tasks, env = session("agentgym", "PickupDist", "GoToLocalS8N7")
    rng = random.Random(0)
    for index in range(30):
        seen, total = env.reset(tasks.task("train", index)), 0.0
        for _ in range(12):
            step = env.step(rng.choice([*seen.admissible, "sing"]))
            total, seen = total + step.reward, step.observation
            if step.terminated or step.truncated:
                break
        assert total == step.raw_score
        assert 0.0 <= total <= 1.0


@pytest.mark.parametrize(("compat", "ends"), [("none", True), ("agentgym", False)])
def test_wrong_object_terminates_a_strict_level_except_in_compat(compat, ends):
    tasks, env = session(compat, "PickupDistDebug")
    for index in range(40):
        task = tasks.task("train", index)
        for action in env.reset(task).admissible:
            if action.startswith(("pick up", "pickup")):
                env.reset(task)
                step = env.step(action)
                if not step.success:
                    assert (step.terminated, step.truncated, step.reward) == (ends, False, 0.0)
                    assert step.observation.text.count("The task has failed") == ends
                    return
    raise AssertionError("no wrong object in sight")
