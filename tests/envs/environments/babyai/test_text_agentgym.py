"""The sentences, and one test for each defect of AgentGym's BabyAI that is mended here."""

import json
import random

import pytest

from agentrl_envs.environments.babyai import BabyAIOptions, BabyAITasks
from agentrl_envs.environments.babyai.actions import Refusal, refusal, sight
from agentrl_envs.environments.babyai.field_of_view import look
from agentrl_envs.environments.babyai.text_agentgym import AgentGym
from agentrl_envs.errors import TaskError

FORM, STRICT = AgentGym(strict=False), AgentGym(strict=True)


def seen_in(game, form=FORM):
    view = look(game)
    return sight(view, tuple(map(form.name, view.things)), form.take)


def session(compat="none", *levels):
    options = BabyAIOptions(levels=levels or ("agentgym",), text="agentgym", compat=compat)
    tasks = BabyAITasks(options)
    return tasks, tasks.environment()


def one_action_task(tasks, env):
    """A task that one object action solves at once, with that action."""
    for index in range(200):
        task = tasks.task("train", index)
        for action in env.reset(task).admissible[2:]:
            env.reset(task)
            if env.step(action).success:
                return task, action
    raise AssertionError("no such task")


def test_the_observation_reads_as_agentgyms(layout):
    rows = ["#######", "#.b...#", "#>...d#", "#######"]
    seen = seen_in(layout(rows, b="red ball", d="yellow door"), STRICT)
    assert STRICT.first("go to the red ball", seen) == (
        "Your goal: go to the red ball\n"
        "In front of you in this room, you can see several objects: "
        "There is a red ball 1 1 steps in front of you and 1 steps to your left. "
        "There is a yellow closed door 1 right in front of you 4 steps away. "
        "The room has walls around you. You are facing a wall 5 steps away. "
        "You are not carrying anything.\n"
        'Available actions: ["turn left", "turn right", "move forward", "go to red ball 1", '
        '"pickup red ball 1", "go to yellow closed door 1", '
        '"toggle and go through yellow closed door 1", "check available actions"]'
    )


def test_the_barrier_ahead_and_the_load_are_told(layout):
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
def test_a_reply_is_read_and_never_run(reply, action):
    assert FORM.parse(reply) == action


def test_two_actions_are_one_too_many():
    tasks, env = session()
    env.reset(tasks.task("train", 0))
    step = env.step("Action: turn left\nAction: turn right")
    assert not step.wellformed
    assert step.observation.text.startswith(
        "Error: Only one 'Action' is allowed per response. Please adjust your response."
    )


def test_a_refusal_names_the_valid_actions():
    tasks, env = session()
    env.reset(tasks.task("train", 0))
    seen = env.step("Action: dance").observation
    message, _, listed = seen.text.partition("\nAvailable actions: ")
    assert message == "The action is not recognized. Please check valid actions."
    assert json.loads(listed) == list(seen.admissible)


def test_another_goal_takes_the_place_of_the_first():
    text = "Your goal: go to the red ball\nYou cannot see any objects within sight."
    changed = FORM.relabel(text, "open the door")
    assert changed == "Your goal: open the door\nYou cannot see any objects within sight."
    with pytest.raises(TaskError, match="holds no goal"):
        FORM.relabel("You cannot see any objects within sight.", "open the door")


# The defects.


def test_pick_up_is_an_action_as_the_prompt_says():
    # Upstream's prompt says "pick up", its environment takes "pickup" only.
    tasks, env = session("none", "GoToLocalS8N7")
    for spelling in ("pick up", "pickup"):
        for index in range(20):
            offered = env.reset(tasks.task("train", index)).admissible
            found = [a for a in offered if a.startswith("pick up")]
            if found:
                reply = f"Action: {found[0].replace('pick up', spelling)}"
                assert env.step(reply).wellformed
                break
    assert "- pick up <obj> <id>" in tasks.instructions()


def test_in_compat_only_the_one_word_is_an_action_and_the_prompt_says_so():
    tasks, env = session("agentgym", "GoToLocalS8N7")
    offered = env.reset(tasks.task("train", 1)).admissible
    found = next(a for a in offered if a.startswith("pickup"))
    assert not env.step(found.replace("pickup", "pick up")).wellformed
    assert env.step(found).wellformed
    assert "- pickup <obj> <id>" in tasks.instructions()
    assert "pick up <obj>" not in tasks.instructions()


def test_drop_is_in_the_prompt_and_works():
    tasks, env = session("none", "UnlockPickup")
    assert "- drop" in tasks.instructions()
    for index in range(20):
        seen = env.reset(tasks.task("train", index))
        taken = [action for action in seen.admissible if action.startswith("pick up")]
        if taken and "drop" in env.step(taken[0]).observation.admissible:
            assert "not carrying anything" in env.step("Action: drop").observation.text
            return
    raise AssertionError("nothing to drop")


def test_order_words_of_the_goal_are_kept():
    mission = "go to a red ball, then go to the box after you open a door"
    assert FORM.goal(mission) == mission
    # Where published numbers need it, they are lost as upstream loses them.
    assert STRICT.goal(mission) == "go to a red ball, and go to the box and open a door"


@pytest.mark.parametrize("compat", ["none", "agentgym"])
def test_a_late_success_is_a_success(compat):
    # Upstream undoes every success whose reward is 0.5 or less.
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


def test_a_success_on_the_way_is_not_undone_by_the_rest_of_the_macro():
    # Upstream walks on through the door that it had to open, and the success is forgotten.
    tasks, env = session("none", "OpenDoorColor")
    task, action = one_action_task(tasks, env)
    assert action.startswith("toggle and go through")
    env.reset(task)
    assert env.step(action).success


def test_minigrids_step_limit_is_heeded():
    tasks, env = session("agentgym", "PickupDist")
    env.reset(tasks.task("train", 0))
    steps = [env.step("turn left") for _ in range(49)]
    assert [step.truncated for step in steps] == [False] * 48 + [True]


def test_the_number_in_a_text_and_the_number_in_an_action_mean_one_thing(layout):
    # Upstream numbers what it sees, and again what it can reach.
    rows = ["######", "#>kb##", "#..###", "#....#", "#.b..#", "######"]
    seen = seen_in(layout(rows, k="grey box", b="red ball"))
    text = FORM.later(seen, "")
    assert "red ball 1 right in front of you 2 steps away" in text
    assert "red ball 2 1 steps in front of you and 3 steps to your right" in text
    assert "go to red ball 1" not in seen.menu
    assert "go to red ball 2" in seen.menu


def test_a_message_names_the_door_and_not_a_python_object(layout):
    game = layout(["######", "#>bd.#", "######"], b="red ball", d="grey door")
    seen = seen_in(game)
    action = "toggle and go through grey closed door 1"
    text = FORM.refused(seen, action, refusal(seen, action, FORM.take))
    assert text.startswith(
        "You cannot toggle and go through grey closed door 1, as there is no path leading to it.\n"
    )


def test_a_ball_ahead_blocks_the_way_and_forward_is_not_offered(layout):
    # To upstream only walls and boxes are barriers.
    seen = seen_in(layout(["#####", "#>b.#", "#####"], b="red ball"))
    assert "move forward" not in seen.menu
    assert refusal(seen, "move forward", FORM.take) is Refusal.BLOCKED


def test_nothing_in_sight_is_said_so(layout):
    # Upstream announces several objects and names none.
    text = FORM.later(seen_in(layout(["#####", "#>..#", "#####"])), "")
    assert text.startswith("You cannot see any objects within sight. The room has walls")


def test_only_the_whole_words_ask_for_the_list():
    # Upstream takes any text with "check" in it.
    tasks, env = session()
    env.reset(tasks.task("train", 0))
    asked = env.step("Action: check available actions")
    assert asked.wellformed
    assert asked.observation.text.startswith("You can take the following actions: turn left, ")
    assert not env.step("Action: checkmate").wellformed


def test_rewards_add_up_to_the_score_and_a_refusal_earns_nothing():
    # Upstream repeats the last reward with every refused action, and adds it to the score.
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
def test_the_wrong_object_ends_a_strict_level_except_in_compat(compat, ends):
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
