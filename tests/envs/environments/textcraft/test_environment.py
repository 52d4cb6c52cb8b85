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


def test_the_opening_is_agentgyms():
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


def test_a_sign_is_made_in_agentgyms_words():
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


def test_what_has_to_be_crafted_cannot_be_taken():
    assert say(playing(), "get 1 stick") == "Could not find stick: it has to be crafted."
    assert say(playing(), "get 1 planks").startswith("Could not find planks: that is a kind of")
    assert say(playing(), "get 1 gold") == "Could not find gold"
    # Shown as an ingredient, and not raw: its recipe is not shown.
    assert say(playing(), "get 1 wool dye") == "Could not find wool dye"


def test_a_refused_command_changes_nothing_and_is_not_wellformed():
    env = playing()
    before = env.step("inventory")
    after = env.step("craft 4 oak planks using 1 oak logs")
    assert (before.wellformed, after.wellformed) == (True, False)
    assert before.state == after.state
    assert before.observation.admissible == after.observation.admissible
    assert after.observation.text == (
        "Could not find enough items to craft minecraft:oak_planks: you do not hold 1 oak logs."
    )


def test_a_solved_task_stays_solved_and_pays_once():
    easy = {**SIGN, "goal": "oak_planks", "depth": 1}
    env = playing(payload=easy)
    say(env, "get 1 oak logs")
    assert env.step("craft 4 oak planks using 1 oak logs").reward == 1.0
    again = env.step("get 1 oak logs")
    assert (again.reward, again.terminated, again.success) == (0.0, True, True)
    assert again.wellformed is False


def test_a_goal_of_the_other_split_is_never_achieved():
    env = playing()
    say(env, "get 1 oak logs", "get 2 bamboo")
    assert env.step("craft 4 oak planks using 1 oak logs").achieved == ()
    assert env.step("craft 1 stick using 2 bamboo").achieved == ("craft stick",)


def test_the_environment_has_a_limit_of_its_own():
    env = playing(limit=2)
    assert env.step("inventory").truncated is False
    assert env.step("inventory").truncated is True


def test_states_are_equal_exactly_when_inventories_are():
    one, two = playing(), playing()
    say(one, "get 1 oak logs", "get 2 bamboo")
    say(two, "get 2 bamboo", "get 1 oak logs")
    states = [env.step("inventory").state for env in (one, two, playing())]
    assert states[0] == states[1] != states[2]


def test_a_step_is_json():
    sent = StepResponse(step=playing().step("nonsense")).model_dump_json()
    assert json.loads(sent)["step"]["success"] is False


@pytest.mark.parametrize("recipes", ["synthetic", "minecraft"])
def test_a_payload_under_the_id_of_another_task_is_refused(recipes):
    """A payload that asks for a raw item earned reward 1 with one action."""
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
def test_a_foreign_payload_names_its_field(payload, field):
    with pytest.raises(TaskError, match=f"textcraft: {field}: .*; pass a payload"):
        playing(payload=payload)


def test_a_step_before_the_first_reset_is_the_callers_mistake():
    with pytest.raises(TaskError, match="call reset first"):
        TextCraftTasks().environment().step("inventory")


# Upstream's defects.


def test_a_batch_larger_than_the_recipes_is_refused_and_a_smaller_one_rounded_up():
    env = playing()
    assert say(env, "get 1 oak logs", "craft 9 oak planks using 1 oak logs") == (
        "Could not find a valid recipe for 9 oak planks: the crafting command makes 4 at a time."
    )
    assert say(env, "craft 1 oak planks using 1 oak logs") == "Crafted 4 minecraft:oak_planks"


def test_an_ingredient_named_twice_takes_no_item_that_is_not_held():
    env = playing()
    say(env, "get 1 bamboo")
    assert say(env, "craft 1 stick using 1 bamboo, 1 bamboo").startswith("Could not find enough")
    assert say(env, "inventory") == "Inventory: [bamboo] (1)"


def test_taking_none_of_an_item_is_refused():
    env = playing()
    assert say(env, "get 0 bamboo").startswith("Wrong item format: 0 bamboo")
    assert say(env, "inventory") == "Inventory: You are not carrying anything."


def test_a_wrong_recipe_is_called_wrong_even_when_nothing_is_held():
    text = say(playing(), "craft 4 oak planks using 2 bamboo")
    assert text.startswith("Could not find a valid recipe for oak planks: give exactly")
    assert say(playing(), "craft 1 diamond using 2 bamboo") == (
        "Could not find a valid recipe for diamond: no crafting command shown makes it."
    )


def test_an_ingredients_recipe_never_makes_the_product_however_often_it_is_reset():
    env = playing()
    for _ in range(3):
        env.reset(task_of(SIGN))
    say(env, "get 1 oak logs")
    assert say(env, "craft 1 oak sign using 1 oak logs").startswith("Could not find a valid recipe")


def test_a_crafting_command_with_a_generic_ingredient_can_be_copied_as_it_is():
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


def test_a_generic_product_is_refused_with_its_name():
    assert say(playing(), "craft 4 planks using 1 oak logs").startswith(
        "Could not find a valid recipe for planks"
    )


def test_a_craft_without_ingredients_is_told_to_name_them():
    assert "name the ingredients" in say(playing(), "craft 1 stick")


# The terse form.


def test_the_terse_form_is_one_line_with_what_is_held_and_what_can_be_made_of_it():
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


def test_a_terse_observation_names_each_item_that_can_be_crafted_once():
    env = playing("terse")
    say(env, "get oak_logs", "get 2 bamboo")
    # Two of the recipes shown make sticks, and the planks and the bamboo do for one each.
    assert say(env, "craft oak_planks") == "have 2 bamboo 4 oak_planks ; can stick"


def test_a_terse_opening_tells_the_goals_recipe_first_and_the_others_as_they_were_shown():
    tasks = TextCraftTasks(TextCraftOptions(text="terse", recipes="synthetic", depths=(2,)))
    shown = tasks.task("train", 0)
    goal, *lines, have = tasks.environment().reset(shown).text.split(" ; ")
    made = [makes for makes, _, _ in shown.payload["recipes"]]
    made.remove(shown.payload["goal"])
    assert goal == f"goal craft {shown.payload['goal']}"
    assert have == "have nothing"
    products = [line.split(" using ")[0].split()[-1] for line in lines]
    assert products == [shown.payload["goal"], *made]


def test_a_terse_get_without_a_count_takes_one():
    env = playing("terse")
    assert say(env, "get bamboo") == "have bamboo"
    assert say(env, "get 1 bamboo") == "have 2 bamboo ; can stick"


def test_agentgyms_get_has_to_name_its_count():
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
def test_every_admissible_action_is_wellformed_and_no_text_raises(tasks, data):
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
