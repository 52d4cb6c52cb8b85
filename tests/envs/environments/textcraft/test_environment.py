import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl_envs.env import Environment, Task
from agentrl_envs.environments.textcraft import TextCraftOptions, TextCraftTasks
from agentrl_envs.environments.textcraft.payload import problem_of
from agentrl_envs.errors import TaskError
from agentrl_envs.protocol import StepResponse

SIGN = {
    "goal": "oak_sign",
    "depth": 3,
    "recipes": [
        ["oak_sign", 3, [["oak_planks", 6], ["stick", 1]]],
        ["oak_planks", 4, [["oak_logs", 1]]],
        ["birch_planks", 4, [["birch_logs", 1]]],
        ["stick", 4, [["planks", 2]]],
        ["stick", 1, [["bamboo", 2]]],
        ["wool", 1, [["wool_dye", 1], ["string", 4]]],
    ],
    "askable": ["oak_sign", "stick"],
    "raw": ["bamboo", "birch_logs", "oak_logs", "string"],
    "tags": {"planks": ["birch_planks", "oak_planks"]},
}


def task_of(payload):
    try:
        return problem_of(payload).task("train")
    except TaskError:
        return Task(id="textcraft-0", category="depth 3", payload=payload)


def playing(text="agentgym", limit=200, payload=SIGN):
    env = TextCraftTasks(TextCraftOptions(text=text, turn_limit=limit)).environment()
    env.reset(task_of(payload))
    return env


def say(env, *actions):
    for action in actions:
        step = env.step(action)
    return step.observation.text


def test_first_observation_equals_that_of_agentgym():
    env = playing()
    seen = env.reset(task_of(SIGN))
    assert seen.text == (
        "Crafting commands:\n"
        "craft 3 oak sign using 6 oak planks, 1 stick\n"
        "craft 4 oak planks using 1 oak logs\n"
        "craft 4 birch planks using 1 birch logs\n"
        "craft 4 stick using 2 planks\n"
        "craft 1 stick using 2 bamboo\n"
        "craft 1 wool using 1 wool dye, 4 string\n"
        "\n"
        "Goal: craft oak sign."
    )
    assert isinstance(env, Environment)


def test_crafting_a_sign_gives_the_messages_of_agentgym():
    env = playing()
    assert say(env, "inventory") == "Inventory: You are not carrying anything."
    assert say(env, "Thought: wood\nAction: get 2 oak logs") == "Got 2 oak logs"
    assert say(env, "Action: get 2 bamboo") == "Got 2 bamboo"
    assert say(env, "inventory") == "Inventory: [oak logs] (2) [bamboo] (2)"
    craft = "craft 4 oak planks using 1 oak logs"
    assert say(env, craft, craft) == "Crafted 4 minecraft:oak_planks"
    assert say(env, "craft 1 stick using 2 bamboo") == "Crafted 1 minecraft:stick"
    step = env.step("Action: craft 3 oak sign using 6 oak planks, 1 stick")
    assert step.observation.text == "Crafted 3 minecraft:oak_sign"
    assert (step.reward, step.terminated, step.truncated) == (1.0, True, False)
    assert step.success is True
    assert step.raw_score == 1.0
    assert step.achieved == ("craft oak sign",)


def test_get_refuses_items_that_are_not_raw():
    assert say(playing(), "get 1 stick") == "Could not find stick: it has to be crafted."
    assert say(playing(), "get 1 planks").startswith("Could not find planks: that is a kind of")
    assert say(playing(), "get 1 gold") == "Could not find gold"
    # An ingredient that is neither raw nor has a recipe in this task.
    assert say(playing(), "get 1 wool dye") == "Could not find wool dye"


def test_refused_command_does_not_change_the_state_and_is_not_wellformed():
    env = playing()
    before = env.step("inventory")
    after = env.step("craft 4 oak planks using 1 oak logs")
    assert (before.wellformed, after.wellformed) == (True, False)
    assert before.state == after.state
    assert before.observation.admissible == after.observation.admissible
    assert after.observation.text == (
        "Could not find enough items to craft minecraft:oak_planks: you do not hold 1 oak logs."
    )


def test_solved_task_stays_solved_and_is_rewarded_once():
    easy = {**SIGN, "goal": "oak_planks", "depth": 1}
    env = playing(payload=easy)
    say(env, "get 1 oak logs")
    assert env.step("craft 4 oak planks using 1 oak logs").reward == 1.0
    again = env.step("get 1 oak logs")
    assert (again.reward, again.terminated, again.success) == (0.0, True, True)
    assert again.wellformed is False


def test_achieved_excludes_goals_of_the_other_split():
    env = playing()
    say(env, "get 1 oak logs", "get 2 bamboo")
    assert env.step("craft 4 oak planks using 1 oak logs").achieved == ()
    assert env.step("craft 1 stick using 2 bamboo").achieved == ("craft stick",)


def test_turn_limit_truncates():
    env = playing(limit=2)
    assert env.step("inventory").truncated is False
    assert env.step("inventory").truncated is True


def test_states_are_equal_if_and_only_if_inventories_are():
    one, two = playing(), playing()
    say(one, "get 1 oak logs", "get 2 bamboo")
    say(two, "get 2 bamboo", "get 1 oak logs")
    states = [env.step("inventory").state for env in (one, two, playing())]
    assert states[0] == states[1] != states[2]


def test_step_is_serializable_to_json():
    sent = StepResponse(step=playing().step("nonsense")).model_dump_json()
    assert json.loads(sent)["step"]["success"] is False


@pytest.mark.parametrize("recipes", ["synthetic", "minecraft"])
def test_payload_with_the_id_of_another_task_is_refused(recipes):
    """Regression: a payload whose goal is a raw item gave reward 1 after one action."""
    tasks = TextCraftTasks(TextCraftOptions(recipes=recipes, depths=(1,), heldout=3))
    task = tasks.task("heldout", 0)
    easy = {**task.payload, "goal": task.payload["raw"][0]}
    environment = tasks.environment()
    for forged in (
        Task(id=task.id, category=task.category, payload=easy),
        Task(id=tasks.task("heldout", 1).id, category=task.category, payload=task.payload),
    ):
        with pytest.raises(TaskError, match=f"task {forged.id}: the payload belongs to another"):
            environment.reset(forged)
    for split in ("train", "heldout"):
        assert environment.reset(tasks.task(split, 1)).text


@pytest.mark.parametrize(
    ("payload", "field"),
    [({}, "goal"), ({**SIGN, "goal": 3}, "goal"), ({**SIGN, "extra": 1}, "extra")],
)
def test_invalid_payload_is_refused_with_the_name_of_the_field(payload, field):
    with pytest.raises(TaskError, match=f"textcraft: {field}: .*; pass a payload"):
        playing(payload=payload)


def test_step_before_reset_raises_task_error():
    with pytest.raises(TaskError, match="call reset first"):
        TextCraftTasks().environment().step("inventory")


# Defects of AgentGym that are fixed here.


def test_count_above_the_batch_size_is_refused_and_below_is_rounded_up():
    env = playing()
    assert say(env, "get 1 oak logs", "craft 9 oak planks using 1 oak logs") == (
        "Could not find a valid recipe for 9 oak planks: the crafting command makes 4 at a time."
    )
    assert say(env, "craft 1 oak planks using 1 oak logs") == "Crafted 4 minecraft:oak_planks"


def test_ingredient_named_twice_needs_the_sum_of_both_counts():
    env = playing()
    say(env, "get 1 bamboo")
    assert say(env, "craft 1 stick using 1 bamboo, 1 bamboo").startswith("Could not find enough")
    assert say(env, "inventory") == "Inventory: [bamboo] (1)"


def test_get_with_count_zero_is_refused():
    env = playing()
    assert say(env, "get 0 bamboo").startswith("Wrong item format: 0 bamboo")
    assert say(env, "inventory") == "Inventory: You are not carrying anything."


def test_wrong_recipe_is_reported_even_if_the_inventory_is_empty():
    text = say(playing(), "craft 4 oak planks using 2 bamboo")
    assert text.startswith("Could not find a valid recipe for oak planks: give exactly")
    assert say(playing(), "craft 1 diamond using 2 bamboo") == (
        "Could not find a valid recipe for diamond: no crafting command shown makes it."
    )


def test_recipes_do_not_change_with_repeated_resets():
    env = playing()
    for _ in range(3):
        env.reset(task_of(SIGN))
    say(env, "get 1 oak logs")
    assert say(env, "craft 1 oak sign using 1 oak logs").startswith("Could not find a valid recipe")


def test_crafting_command_with_a_generic_ingredient_is_accepted_verbatim():
    env = playing()
    say(env, "get 1 birch logs", "craft 4 birch planks using 1 birch logs")
    assert say(env, "craft 4 stick using 2 planks") == "Crafted 4 minecraft:stick"
    assert say(env, "inventory") == "Inventory: [birch planks] (2) [stick] (4)"


def test_members_of_a_generic_ingredient_can_be_mixed():
    env = playing()
    say(env, "get 1 birch logs", "get 1 oak logs")
    say(env, "craft birch planks using 1 birch logs", "craft oak planks using 1 oak logs")
    text = say(env, "craft 4 stick using 1 birch planks, 1 oak planks")
    assert text == "Crafted 4 minecraft:stick"
    assert say(env, "inventory") == "Inventory: [birch planks] (3) [oak planks] (3) [stick] (4)"


def test_generic_product_is_refused_by_name():
    assert say(playing(), "craft 4 planks using 1 oak logs").startswith(
        "Could not find a valid recipe for planks"
    )


def test_craft_without_ingredients_is_refused_with_a_hint():
    assert "name the ingredients" in say(playing(), "craft 1 stick")


# The terse form.


def test_terse_observation_lists_recipes_inventory_and_craftable_items_in_one_line():
    env = playing("terse")
    seen = env.reset(task_of(SIGN))
    assert seen.text == (
        "goal craft oak_sign ; 3 oak_sign using 6 oak_planks stick ; 4 oak_planks using oak_logs"
        " ; 4 birch_planks using birch_logs ; 4 stick using 2 planks ; stick using 2 bamboo"
        " ; wool using wool_dye 4 string ; have nothing"
    )
    assert say(env, "get 2 bamboo") == "have 2 bamboo ; can stick"
    assert say(env, "craft oak_planks") == "cannot ; have 2 bamboo ; can stick"
    assert say(env, "craft stick") == "have stick"
    assert say(env, "get 900 bamboo") == "have many bamboo stick ; can stick"


def test_terse_observation_names_each_craftable_item_once():
    env = playing("terse")
    say(env, "get oak_logs", "get 2 bamboo")
    # Both recipes for sticks can be crafted, one from planks and one from bamboo.
    assert say(env, "craft oak_planks") == "have 2 bamboo 4 oak_planks ; can stick"


def test_terse_observation_shows_the_recipe_of_the_goal_first():
    tasks = TextCraftTasks(TextCraftOptions(text="terse", recipes="synthetic", depths=(2,)))
    shown = tasks.task("train", 0)
    goal, *lines, have = tasks.environment().reset(shown).text.split(" ; ")
    made = [makes for makes, _, _ in shown.payload["recipes"]]
    made.remove(shown.payload["goal"])
    assert goal == f"goal craft {shown.payload['goal']}"
    assert have == "have nothing"
    products = [line.split(" using ")[0].split()[-1] for line in lines]
    assert products == [shown.payload["goal"], *made]


def test_terse_get_without_a_count_takes_one():
    env = playing("terse")
    assert say(env, "get bamboo") == "have bamboo"
    assert say(env, "get 1 bamboo") == "have 2 bamboo ; can stick"


def test_agentgym_get_requires_a_count():
    env = playing()
    before, after = env.step("inventory"), env.step("get bamboo")
    assert after.observation.text.startswith("Could not execute get bamboo. Commands are: get [co")
    assert after.wellformed is False
    assert after.state == before.state


def test_terse_admissible_names_ingredients_only_where_there_is_a_choice():
    env = playing("terse")
    say(env, "get oak_logs", "craft oak_planks", "get 2 bamboo")
    step = env.step("get oak_logs")
    assert step.observation.admissible == (
        "get 2 bamboo",
        "get birch_logs",
        "get oak_logs",
        "get 4 string",
        "craft oak_planks",
        "craft stick using 2 planks",
        "craft stick using 2 bamboo",
    )
    assert say(env, "craft stick using 2 planks").startswith("have 2 bamboo")


TASKS = [
    TextCraftTasks(TextCraftOptions(text=text, recipes=recipes, depths=(1, 2)))
    for text in ("agentgym", "terse")
    for recipes in ("minecraft", "synthetic")
]


@settings(max_examples=60)
@given(tasks=st.sampled_from(TASKS), data=st.data())
def test_admissible_actions_are_wellformed_and_no_text_raises(tasks, data):
    env = tasks.environment()
    seen = env.reset(tasks.task("train", data.draw(st.integers(0, 10**6))))
    for _ in range(8):
        assert len(set(seen.admissible)) == len(seen.admissible) > 0
        valid = data.draw(st.booleans())
        action = data.draw(st.sampled_from(seen.admissible) if valid else st.text(max_size=40))
        step = env.step(action)
        assert step.wellformed or not valid
        if step.terminated:
            break
        seen = step.observation
