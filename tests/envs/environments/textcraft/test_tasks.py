import subprocess
import sys

import pytest
from pydantic import ValidationError

from agentrl_envs.conformance.check import check
from agentrl_envs.env import TaskSet, split_of
from agentrl_envs.environments.textcraft import TextCraftOptions, TextCraftTasks
from agentrl_envs.environments.textcraft.recipes import Book, Recipe
from agentrl_envs.environments.textcraft.recipes_minecraft import minecraft_book
from agentrl_envs.errors import TaskError

MINECRAFT = TextCraftTasks(TextCraftOptions(heldout=100))
SYNTHETIC = TextCraftTasks(
    TextCraftOptions(recipes="synthetic", text="terse", depths=(1, 2, 3, 4, 5), heldout=100)
)
BOTH = pytest.mark.parametrize("tasks", [MINECRAFT, SYNTHETIC], ids=["minecraft", "synthetic"])


def goal_tree(task):
    """The goal and the recipes of its tree, from the recipes in the payload."""
    recipes = sorted(
        Recipe(makes, count, tuple((name, n) for name, n in needs))
        for makes, count, needs in task.payload["recipes"]
    )
    book = Book(tuple(recipes), task.payload["tags"])
    return (task.payload["goal"], book.tree(task.payload["goal"]))


def shown_tree(tasks, task):
    """As `goal_tree`; with Minecraft's recipes, also check that the payload has the whole tree."""
    goal, tree = goal_tree(task)
    if tasks is MINECRAFT:
        assert set(minecraft_book().tree(goal)) == set(tree)
    return goal, tree


@BOTH
def test_task_set_implements_the_protocol_and_has_sizes(tasks):
    assert isinstance(tasks, TaskSet)
    assert tasks.size("train") is None
    assert tasks.size("heldout") == 100


@BOTH
def test_ids_match_their_split(tasks):
    for split in ("train", "heldout"):
        assert {split_of(tasks.task(split, index).id) for index in range(100)} == {split}


@BOTH
def test_heldout_tasks_are_distinct(tasks):
    heldout = [tasks.task("heldout", index) for index in range(100)]
    assert len({task.id for task in heldout}) == 100
    shown = {(task.payload["goal"], str(task.payload["recipes"])) for task in heldout}
    assert len(shown) == 100
    assert tasks.task("heldout", 103) == heldout[3]


@BOTH
def test_no_goal_tree_is_in_both_splits(tasks):
    train = {shown_tree(tasks, tasks.task("train", index)) for index in range(300)}
    heldout = {shown_tree(tasks, tasks.task("heldout", index)) for index in range(100)}
    assert not train & heldout


@BOTH
def test_askable_goals_belong_to_the_split(tasks):
    for split in ("train", "heldout"):
        for index in range(50):
            task = tasks.task(split, index)
            assert task.payload["goal"] in task.payload["askable"]
    asked = {g for i in range(150) for g in MINECRAFT.task("train", i).payload["askable"]}
    held = {MINECRAFT.task("heldout", index).payload["goal"] for index in range(100)}
    assert not asked & held


def test_minecraft_holds_out_about_one_goal_in_five():
    assert len(MINECRAFT.goals("train")) == 431
    assert len(MINECRAFT.goals("heldout")) == 115
    assert not set(MINECRAFT.goals("train")) & set(MINECRAFT.goals("heldout"))


@BOTH
def test_ten_distractors_are_added_to_the_tree(tasks):
    for index in range(60):
        task = tasks.task("train", index)
        _, tree = goal_tree(task)
        assert len(task.payload["recipes"]) == len(tree) + 10


@BOTH
def test_equal_indices_give_equal_tasks(tasks):
    again = TextCraftTasks(tasks.options)
    for split in ("heldout", "train"):
        for index in (7, 0, 31):
            assert again.task(split, index) == tasks.task(split, index)


def test_tasks_do_not_depend_on_the_hash_seed_or_the_working_directory():
    code = (
        "from agentrl_envs.environments.textcraft import *\n"
        "for recipes in ('minecraft', 'synthetic'):\n"
        "    tasks = TextCraftTasks(TextCraftOptions(recipes=recipes, heldout=20))\n"
        "    print([tasks.task(s, i).id for s in ('train', 'heldout') for i in range(20)])\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            cwd="/",
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert "textcraft-" in outputs[0]


def test_first_ids_never_change():
    """Changed ids would invalidate all published results."""
    synthetic = TextCraftTasks(TextCraftOptions(recipes="synthetic"))
    assert MINECRAFT.task("train", 0).id == "textcraft-5511bfe985dd566a"
    assert MINECRAFT.task("heldout", 0).id == "textcraft-61271199555ffcbb"
    assert synthetic.task("train", 0).id == "textcraft-551644b8f24270ae"


@BOTH
def test_every_task_is_solved_by_its_plan(tasks):
    env = tasks.environment()
    for split in ("train", "heldout"):
        for index in range(150):
            task = tasks.task(split, index)
            seen, plan = env.reset(task), tasks.plan(task)
            for action in plan:
                assert action in seen.admissible
                step = env.step(action)
                seen = step.observation
            assert step.terminated
            assert step.reward == 1.0


def test_depths_of_synthetic_tasks_take_turns():
    categories = [SYNTHETIC.task("train", index).category for index in range(10)]
    assert categories == [f"depth {depth}" for depth in (1, 2, 3, 4, 5)] * 2


@pytest.mark.parametrize("recipes", ["minecraft", "synthetic"])
def test_terse_texts_use_only_words_of_the_vocabulary(recipes):
    tasks = TextCraftTasks(TextCraftOptions(recipes=recipes, text="terse", depths=(1, 2, 3)))
    words = tasks.vocabulary()
    assert len(set(words)) == len(words)
    env = tasks.environment()
    for index in range(60):
        task = tasks.task("train", index)
        seen = env.reset(task)
        texts = [seen.text, *seen.admissible]
        for action in ("fly", seen.admissible[0], *tasks.plan(task)):
            seen = env.step(action).observation
            texts += [seen.text, *seen.admissible]
        assert {word for text in texts for word in text.split()} <= set(words)
    assert tasks.instructions() == ""


def test_agentgym_form_has_instructions_and_no_vocabulary():
    assert MINECRAFT.vocabulary() is None
    assert "craft [count] [item] using" in MINECRAFT.instructions()


@BOTH
def test_relabel_changes_only_the_goal(tasks):
    task = tasks.task("train", 0)
    text = tasks.environment().reset(task).text
    goal = task.payload["goal"] if tasks is SYNTHETIC else task.payload["goal"].replace("_", " ")
    changed = tasks.relabel(text, "craft apple")
    assert changed != text
    assert "craft apple" in changed
    assert tasks.relabel(changed, f"craft {goal}") == text


def test_terse_relabel_moves_the_recipe_of_the_new_goal_to_the_front():
    seen = "goal craft axe ; axe using 2 plate rod ; 2 plate using iron ; have nothing"
    assert SYNTHETIC.relabel(seen, "craft plate") == (
        "goal craft plate ; 2 plate using iron ; axe using 2 plate rod ; have nothing"
    )


@BOTH
def test_relabel_refuses_an_observation_without_a_goal(tasks):
    for text in ("Got 1 diamond", "have diamond", "cannot ; have diamond", "goal"):
        with pytest.raises(TaskError, match="observation: holds no goal"):
            tasks.relabel(text, "craft apple")


def test_negative_index_is_refused():
    with pytest.raises(TaskError, match="index: -1 is negative"):
        MINECRAFT.task("train", -1)


def test_too_few_different_heldout_tasks_raise_task_error():
    tiny = {"raw_items": 2, "made_items": 2, "distractors": 1, "ingredients": 1, "most": 1}
    tasks = TextCraftTasks(TextCraftOptions(recipes="synthetic", depths=(1,), heldout=1000, **tiny))
    with pytest.raises(TaskError, match=r"textcraft\.options\.heldout: after .* ask for fewer"):
        tasks.task("heldout", 0)


@BOTH
def test_conformance_check_passes(tasks):
    report = check(tasks, tasks=6)
    assert report.passed, str(report)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"depths": (5,)}, "depths"),
        ({"depths": (1, 1)}, "depths"),
        ({"depths": (0,)}, "depths"),
        ({"recipes": "synthetic", "made_items": 10}, "made_items"),
        ({"recipes": "synthetic", "raw_items": 2, "ingredients": 4}, "raw_items"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_invalid_options_are_refused_with_the_name_of_the_field(options, field):
    with pytest.raises(ValidationError, match=field):
        TextCraftOptions(**options)
