import subprocess
import sys

import pytest
from pydantic import ValidationError

from agentrl_envs.env import Environment, Task, TaskSet, split_of
from agentrl_envs.environments.babyai import AGENTGYM, STARTER, BabyAIOptions, BabyAITasks
from agentrl_envs.errors import TaskError


def test_task_set_and_environment_implement_the_protocols():
    tasks = BabyAITasks()
    assert isinstance(tasks, TaskSet)
    assert isinstance(tasks.environment(), Environment)


def test_first_tasks_never_change():
    tasks = BabyAITasks()

    def first(split, number):
        found = (tasks.task(split, index) for index in range(number))
        return [(task.id, task.category, task.payload["seed"]) for task in found]

    assert first("train", 5) == [
        ("babyai-28fc366befda569e", "PickupDist", 0),
        ("babyai-3f603383a41979a5", "ActionObjDoor", 2),
        ("babyai-ab39ac0081b844e1", "OpenDoorColor", 0),
        ("babyai-a69b17fb9235b0c4", "UnlockLocal", 1),
        ("babyai-297262d4cbf01ae3", "UnlockPickup", 0),
    ]
    assert first("heldout", 2) == [
        ("babyai-5d97b8e494f763fa", "PickupDist", 5),
        ("babyai-d162b7bc152ac525", "ActionObjDoor", 0),
    ]


def test_levels_take_turns():
    tasks = BabyAITasks()
    shares = [tasks.task("heldout", index).category for index in range(10)]
    assert shares == 2 * [
        "PickupDist",
        "ActionObjDoor",
        "OpenDoorColor",
        "UnlockLocal",
        "UnlockPickup",
    ]


def test_splits_are_disjoint_and_heldout_tasks_are_distinct():
    tasks = BabyAITasks()
    train = [tasks.task("train", index).id for index in range(500)]
    heldout = [tasks.task("heldout", index).id for index in range(200)]
    assert not set(train) & set(heldout)
    assert len(set(heldout)) == 200
    assert {split_of(task) for task in train} == {"train"}
    assert {split_of(task) for task in heldout} == {"heldout"}


def test_tasks_do_not_depend_on_the_order_of_requests():
    one, other = BabyAITasks(), BabyAITasks()
    forward = [one.task("heldout", index) for index in range(20)]
    other.task("train", 50)
    assert [other.task("heldout", index) for index in reversed(range(20))] == forward[::-1]


def test_tasks_do_not_depend_on_the_text_form():
    terse = BabyAITasks(BabyAIOptions(text="terse")).task("train", 3)
    assert BabyAITasks(BabyAIOptions(text="agentgym", compat="agentgym")).task("train", 3) == terse


def test_too_few_different_heldout_tasks_raise_task_error():
    tasks = BabyAITasks(BabyAIOptions(levels=("GoToRedBallNoDists",)))
    with pytest.raises(TaskError, match="different heldout tasks; ask for fewer"):
        tasks.task("heldout", 2000)


def test_negative_index_is_refused():
    with pytest.raises(TaskError, match="negative"):
        BabyAITasks().task("train", -1)


def test_id_that_does_not_match_the_seed_is_refused():
    tasks = BabyAITasks()
    task, other = tasks.task("train", 0), tasks.task("train", 5)
    with pytest.raises(TaskError, match="minigrid version"):
        tasks.environment().reset(Task(id=other.id, category="x", payload=task.payload))


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"level": "BabyAI-PickupDist-v0"},
        {"level": "BabyAI-PickupDist-v0", "seed": -1},
        {"level": "BabyAI-PickupDist-v0", "seed": "1"},
        {"level": "BabyAI-PickupDist-v0", "seed": True},
        {"level": "os.system", "seed": 1},
        {"level": ["x"], "seed": 1},
    ],
)
def test_payload_of_another_environment_is_refused(payload):
    with pytest.raises(TaskError, match="not a BabyAI task"):
        BabyAITasks().environment().reset(Task(id="babyai-0", category="x", payload=payload))


def test_levels_are_selected_by_id_short_name_or_group():
    assert BabyAIOptions().levels == STARTER
    assert BabyAIOptions(levels=("agentgym",)).levels == AGENTGYM
    assert len(AGENTGYM) == 18
    mixed = BabyAIOptions(levels=("PickupDist", "BabyAI-PickupDist-v0", "GoToObjS6")).levels
    assert mixed == ("BabyAI-PickupDist-v0", "BabyAI-GoToObjS6-v1")


@pytest.mark.parametrize(
    "options", [{"levels": ("Nowhere",)}, {"levels": ()}, {"text": "loud"}, {"colour": "red"}]
)
def test_invalid_options_are_refused(options):
    with pytest.raises(ValidationError):
        BabyAIOptions(**options)


def test_all_agentgym_levels_can_be_played():
    tasks = BabyAITasks(BabyAIOptions(levels=("agentgym",), text="agentgym"))
    env = tasks.environment()
    for index in range(18):
        assert "Your goal: " in env.reset(tasks.task("train", index)).text


def test_minigrid_does_not_print(capsys):
    tasks = BabyAITasks(BabyAIOptions(levels=("GoToRedBlueBall", "SynthLoc")))
    tasks.task("train", 60)
    assert capsys.readouterr().out == ""


def test_importing_the_package_does_not_import_minigrid():
    code = (
        "import sys; import agentrl_envs.environments.babyai; sys.exit('minigrid' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=300, check=False).returncode == 0
