"""AgentGym's TextCraft: recorded facts, what is kept, and the defect that is fixed.

The comparison with AgentGym's own code is in tests/envs/agentgym."""

import hashlib
import random
from collections import Counter

import pytest

from agentrl_envs.conformance.check import check
from agentrl_envs.env import split_exchange
from agentrl_envs.environments.textcraft.options import TextCraftOptions
from agentrl_envs.environments.textcraft.tasks import TextCraftTasks

TASKS = TextCraftTasks(TextCraftOptions(compat="agentgym", ids="agentgym"))
HELDOUT = [TASKS.task("heldout", index) for index in range(TASKS.size("heldout"))]
GOLDEN = "d4724eee24074f9f"
"""Hash of the 388 observations below. The same games equal AgentGym's, byte by byte."""
OTHERS = ("", "dance", "get 0 diamond", "inventory please", "craft 1 stick using 2 oak planks")


@pytest.fixture
def env():
    environment = TASKS.environment()
    environment.reset(TASKS.task("heldout", 0))
    return environment


def said(env, action):
    return env.step(f"Thought: hm.\nAction: {action}").observation.text


def test_the_observations_of_recorded_games_are_unchanged():
    env, draws, digest, count = TASKS.environment(), random.Random(7), hashlib.sha256(), 0
    for task in sorted(HELDOUT, key=lambda task: task.category)[::4]:
        seen = env.reset(task)
        for _ in range(16):
            digest.update(seen.text.encode())
            count += 1
            offered = draws.random() < 0.9
            step = env.step(f"Action: {draws.choice(seen.admissible if offered else OTHERS)}")
            seen = step.observation
            if step.terminated:
                break
    assert (count, digest.hexdigest()[:16]) == (388, GOLDEN)


def test_the_published_game_keeps_the_contract():
    assert check(TASKS, tasks=4).failed() == {}


def test_the_test_split_has_the_depths_of_the_paper():
    counts = Counter(task.category for task in HELDOUT)
    assert counts == {"depth 1": 31, "depth 2": 41, "depth 3": 25, "depth 4": 3}
    assert len({task.id for task in HELDOUT}) == 100


@pytest.mark.parametrize(
    ("first", "counts"), [(10, [3, 4, 3, 0]), (20, [6, 8, 5, 1]), (50, [16, 21, 12, 1])]
)
def test_the_first_test_tasks_have_the_depths_in_about_their_shares(first, counts):
    found = Counter(task.category for task in HELDOUT[:first])
    assert [found[f"depth {depth}"] for depth in (1, 2, 3, 4)] == counts


def test_the_prompt_is_a_user_message_with_a_reply():
    message, reply = split_exchange(TASKS.instructions())
    assert "inventory" in message
    assert reply.startswith("OK")


def test_messages_are_those_of_agentgym(env):
    assert said(env, "dance") == "Could not execute dance"
    assert said(env, "get 2 unobtainium") == "Could not find unobtainium"
    assert said(env, "craft 4 stick using planks") == "Wrong item format: planks"
    assert said(env, "craft 4 stick using 2 oak planks") == (
        "Could not find enough items to craft minecraft:stick"
    )
    assert said(env, "get 1 oak logs") == "Got 1 oak logs"
    assert said(env, "inventory please") == "Inventory: [oak logs] (1) "
    assert said(env, "craft 1 stick using 1 oak logs") == (
        "Could not find a valid recipe for ItemTagWithCount(item_tag=ItemTag(tag=None, "
        "item_id='minecraft:stick'), count=1)"
    )


def test_a_recipe_that_is_not_shown_can_be_executed_and_the_count_of_the_product_is_ignored(env):
    assert said(env, "get 1 oak logs") == "Got 1 oak logs"
    assert said(env, "craft 99 oak planks using 1 oak logs") == "Crafted 4 minecraft:oak_planks"
    assert said(env, "craft 4 stick using 2 oak planks") == "Crafted 4 minecraft:stick"
    assert said(env, "inventory") == "Inventory: [oak planks] (2) [stick] (4) "


def test_an_ingredient_that_is_named_twice_needs_the_sum_of_both_counts(env):
    # AgentGym checks each naming alone, so that one item can be spent twice.
    said(env, "get 1 oak logs")
    said(env, "craft 4 oak planks using 1 oak logs")
    text = said(env, "craft 1 chest using 4 oak planks, 4 oak planks")
    assert text == "Could not find enough items to craft minecraft:chest"


def test_a_recipe_that_two_members_of_a_tag_suffice_for_together_is_not_listed():
    """Regression: the menu had `craft 1 smithing table using 2 iron ingot, 2 acacia planks, 2 birch
    planks`, which the game refuses, as AgentGym's does."""
    env = TASKS.environment()
    seen = env.reset(TASKS.task("train", 10))
    assert "craft 1 smithing table using 2 iron ingot, 4 planks" in seen.text
    assert env.step("get 2 iron ingot").wellformed
    for wood in ("acacia", "birch"):
        assert env.step(f"get 2 {wood} logs").wellformed
        assert env.step(f"craft 4 {wood} planks using 1 {wood} logs").wellformed
        step = env.step(f"craft 4 stick using 2 {wood} planks")
    assert not any("smithing table" in action for action in step.observation.admissible)
    step = env.step("craft 4 birch planks using 1 birch logs")
    (offered,) = (a for a in step.observation.admissible if "smithing table" in a)
    assert offered == "craft 1 smithing table using 2 iron ingot, 4 birch planks"
    assert env.step(offered).wellformed


def test_every_action_of_the_menu_is_executed():
    draws, refused = random.Random(3), []
    env = TASKS.environment()
    for task in HELDOUT[::5]:
        seen = env.reset(task)
        for _ in range(12):
            step = env.step(draws.choice(seen.admissible))
            if not step.wellformed:
                refused.append(step.observation.text)
            seen = step.observation
            if step.terminated:
                break
    assert refused == []
