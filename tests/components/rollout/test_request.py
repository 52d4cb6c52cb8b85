"""Every episode of a request has random numbers of its own."""

from agentrl_components.rollout.request import CollectRequest
from agentrl_components.rollout.tasks import DrawnTask
from agentrl_envs.env import Task

INSTRUCTIONS = {"rooms": "", "crafting": ""}


def drawn(environment: str, name: str) -> DrawnTask:
    return DrawnTask(environment, Task(id=name, category="", payload={}))


def request(*tasks: DrawnTask) -> CollectRequest:
    return CollectRequest(
        tasks=tasks,
        samples=2,
        max_turns=3,
        temperature=1.0,
        iteration=0,
        purpose="train/0",
        first_group=5,
    )


def numbered(jobs) -> list[tuple[str, str, int, int]]:
    return [(job.environment, job.task.id, job.group, job.sample) for job in jobs]


def test_the_samples_of_a_task_that_was_drawn_again_are_numbered_on():
    key, door = drawn("rooms", "key"), drawn("rooms", "door")
    assert numbered(request(key, door, key).jobs(INSTRUCTIONS)) == [
        ("rooms", "key", 5, 0),
        ("rooms", "key", 5, 1),
        ("rooms", "door", 6, 0),
        ("rooms", "door", 6, 1),
        ("rooms", "key", 7, 2),
        ("rooms", "key", 7, 3),
    ]


def test_tasks_of_the_same_name_in_two_environments_are_two_tasks():
    jobs = request(drawn("rooms", "key"), drawn("crafting", "key")).jobs(INSTRUCTIONS)
    assert [job.sample for job in jobs] == [0, 1, 0, 1]


def test_a_group_that_is_played_alone_has_the_samples_that_it_has_among_all():
    key = drawn("rooms", "key")
    assert numbered(request(key, key).jobs(INSTRUCTIONS, [1])) == [
        ("rooms", "key", 6, 2),
        ("rooms", "key", 6, 3),
    ]
