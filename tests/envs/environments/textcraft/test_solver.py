from collections import deque

import pytest

from agentrl_envs.env import Task
from agentrl_envs.environments.textcraft import TextCraftOptions, TextCraftTasks

TASKS = TextCraftTasks(
    TextCraftOptions(
        recipes="synthetic", text="terse", depths=(1, 2), distractors=1, made_items=3, raw_items=3
    )
)


def problem(goal, recipes, raw, tags=None):
    payload = {
        "goal": goal,
        "depth": 1,
        "recipes": recipes,
        "askable": [goal],
        "raw": raw,
        "tags": tags or {},
    }
    return Task(id="textcraft-0", category="depth 1", payload=payload)


def test_ingredient_counts_are_summed_before_rounding_to_batches():
    # 3 rods in batches of 2 are two batches of one iron each; the plate needs one more iron.
    task = problem(
        "axe",
        [
            ["axe", 1, [["plate", 1], ["rod", 2]]],
            ["plate", 1, [["iron", 1], ["rod", 1]]],
            ["rod", 2, [["iron", 1]]],
        ],
        ["iron"],
    )
    assert TASKS.plan(task) == (
        *("get iron",) * 3,
        *("craft rod", "craft rod", "craft plate", "craft axe"),
    )


def test_plan_uses_the_shorter_of_two_recipes():
    task = problem(
        "stick",
        [["stick", 1, [["bamboo", 2], ["string", 1]]], ["stick", 4, [["wood", 2]]]],
        ["bamboo", "string", "wood"],
    )
    assert TASKS.plan(task) == ("get 2 wood", "craft stick using 2 wood")


def test_generic_ingredient_uses_a_leftover_item():
    task = problem(
        "sign",
        [
            ["sign", 1, [["oak_planks", 1], ["planks", 1]]],
            ["oak_planks", 4, [["oak_logs", 1]]],
            ["birch_planks", 4, [["birch_logs", 1]]],
        ],
        ["birch_logs", "oak_logs"],
        {"planks": ["birch_planks", "oak_planks"]},
    )
    assert TASKS.plan(task) == ("get oak_logs", "craft oak_planks", "craft sign")


def test_unsolvable_task_has_an_empty_plan():
    assert TASKS.plan(problem("axe", [["axe", 1, [["plate", 1]]]], [])) == ()


@pytest.mark.parametrize("index", range(12))
def test_plan_is_as_short_as_the_solution_of_breadth_first_search(index):
    """Search over all admissible actions."""
    task = TASKS.task("train", index)
    env = TASKS.environment()

    def replay(actions):
        step = None
        seen = env.reset(task)
        for action in actions:
            step = env.step(action)
            seen = step.observation
        return step, seen

    queue, states = deque([()]), set()
    while True:
        actions = queue.popleft()
        step, seen = replay(actions)
        if step is not None and step.terminated:
            break
        if step is not None and step.state in states:
            continue
        if step is not None:
            states.add(step.state)
        queue.extend((*actions, action) for action in seen.admissible)
    assert len(actions) == len(TASKS.plan(task))
