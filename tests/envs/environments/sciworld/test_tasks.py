import re

import pytest

from agentrl_envs import registry
from agentrl_envs.env import Split, Task, split_of
from agentrl_envs.environments.sciworld import SciWorldOptions, SciWorldTasks
from agentrl_envs.environments.sciworld.catalogue import BY_NAME, of_item
from agentrl_envs.environments.sciworld.payload import payload_of
from agentrl_envs.errors import OptionError, TaskError

ALL = SciWorldTasks(SciWorldOptions(tasks=("agentgym",)))


def every(tasks: SciWorldTasks, split: Split) -> list[Task]:
    return [tasks.task(split, index) for index in range(tasks.size(split) or 0)]


def test_a_training_task_is_a_training_variation_and_no_heldout_task():
    train, heldout = every(ALL, "train"), every(ALL, "heldout")
    assert len(train) == sum(game.train for game in BY_NAME.values()) == 2312
    assert len(heldout) == sum(game.test for game in BY_NAME.values()) == 1171
    contents = [{(t.category, t.payload["variation"]) for t in split} for split in (train, heldout)]
    assert not contents[0] & contents[1]
    assert not {task.id for task in train} & {task.id for task in heldout}
    for split, tasks in (("train", train), ("heldout", heldout)):
        assert {split_of(task.id) for task in tasks} == {split}
        assert {BY_NAME[t.category].split_of(t.payload["variation"]) for t in tasks} == {split}


def test_tasks_are_dealt_in_turn_and_their_category_is_the_tasks_name():
    options = SciWorldOptions(tasks=("identify-life-stages-2", "boil"))
    train = every(SciWorldTasks(options), "train")
    life, boil = "identify-life-stages-2", "boil"
    assert [task.category for task in train] == [life, boil] * 4 + [boil] * 10
    assert [task.payload["variation"] for task in train[:4]] == [0, 0, 1, 1]


def test_items_of_agentgym_are_held_out_in_their_order_and_never_trained_on():
    item = ALL.task("train", 0).payload["item"]
    tasks = SciWorldTasks(SciWorldOptions(tasks=("agentgym",), items=(4638, item)))
    heldout = every(tasks, "heldout")
    assert [task.payload["item"] for task in heldout] == [4638, item]
    assert [(t.category, t.payload["variation"]) for t in heldout] == [of_item(4638), of_item(item)]
    assert {split_of(task.id) for task in heldout} == {"heldout"}
    assert item not in {task.payload["item"] for task in every(tasks, "train")}


@pytest.mark.parametrize(
    "changed",
    [
        {"variation": 1},
        {"variation": 10**6},
        {"variation": "0"},
        {"task": "grow-plant"},
        {"salt": 0.5},
        {"more": 1},
    ],
)
def test_a_payload_that_no_task_has_is_refused(changed):
    task = ALL.task("train", 0)
    assert payload_of(task).task == "boil"
    forged = Task(id=task.id, category=task.category, payload={**task.payload, **changed})
    with pytest.raises(TaskError, match="use a task of sciworld"):
        payload_of(forged)


def test_wrong_options_are_named_with_a_fix():
    with pytest.raises(OptionError, match="no task is called 'boli'; choose among starter"):
        registry.task_set("sciworld", {"tasks": ["boli"]})
    with pytest.raises(OptionError, match="there is no item 4639; items are 0 to 4638"):
        registry.task_set("sciworld", {"items": [4639]})
    with pytest.raises(OptionError, match="set text to agentgym"):
        registry.task_set("sciworld", {"compat": "agentgym"})


def test_the_prompt_is_a_system_message_and_in_compat_a_user_message_with_a_reply():
    for compat, replies in (("none", 0), ("agentgym", 1)):
        options = SciWorldOptions(text="agentgym", compat=compat)
        instructions = SciWorldTasks(options).instructions()
        assert instructions.count("\x1eOK.") == replies
        assert re.search(r"^- focus on OBJ: ", instructions, re.MULTILINE)
