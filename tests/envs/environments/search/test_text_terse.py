"""The terse form: what is listed, and the goals that answers reach."""

from __future__ import annotations

import pytest

from agentrl_envs.env import split_of
from agentrl_envs.environments.search import SearchOptions, SearchTasks
from agentrl_envs.environments.search.facts import fact_world
from agentrl_envs.errors import TaskError

OPTIONS = SearchOptions(text="terse", people=240, hops=(1, 2, 3), top_k=2, heldout=60)
TASKS = SearchTasks(OPTIONS)
LINKS = fact_world(0, 240, 3).links


def test_a_question_is_its_chain_and_searches_are_listed():
    task = TASKS.task("heldout", 1)
    start, first, second = task.payload["chain"]
    seen = TASKS.environment().reset(task)
    name = start.lower()
    assert seen.text == f"ask {name} {first} {second}"
    assert seen.admissible == (f"search {name} {first}", f"search {name} {second}")


def test_what_was_found_can_be_searched_for_and_answered():
    task, session = TASKS.task("heldout", 1), TASKS.environment()
    session.reset(task)
    start, first, second = task.payload["chain"]
    step = session.step(f"search {start.lower()} {first}")
    found = LINKS[start][first].lower()
    assert step.observation.text.startswith(f"{start.lower()} {first} {found} ; ")
    assert f"search {found} {second}" in (step.observation.admissible or ())
    assert f"answer {found}" in (step.observation.admissible or ())
    assert f"search {start.lower()} {first}" not in (step.observation.admissible or ())
    assert f"answer {start.lower()}" not in (step.observation.admissible or ())


def test_every_question_is_solved_by_its_chain():
    session = TASKS.environment()
    for index in range(60):
        task = TASKS.task("heldout", index)
        session.reset(task)
        name, *relations = task.payload["chain"]
        for relation in relations:
            step = session.step(f"search {name.lower()} {relation}")
            assert step.wellformed
            name = LINKS[name][relation]
        step = session.step(f"answer {name.lower()}")
        assert (step.success, step.reward, step.observation.admissible) == (True, 1.0, ())


def test_an_answer_achieves_the_question_of_the_chain_that_found_it():
    session, reached = TASKS.environment(), 0
    for index in range(60):
        task = TASKS.task("train", index)
        session.reset(task)
        start, first = task.payload["chain"][:2]
        session.step(f"search {start.lower()} {first}")
        step = session.step(f"answer {LINKS[start][first].lower()}")
        assert step.achieved in ((), (f"{start.lower()} {first}",))
        reached += len(step.achieved)
    assert 30 < reached < 60  # about four in five one-hop questions are training tasks


def test_a_goal_of_the_other_split_is_never_achieved():
    heldout = {tuple(TASKS.task("heldout", index).payload["chain"]) for index in range(60)}
    session = TASKS.environment()
    for index in range(60):
        task = TASKS.task("train", index)
        assert split_of(task.id) == "train"
        session.reset(task)
        start, first = task.payload["chain"][:2]
        session.step(f"search {start.lower()} {first}")
        for goal in session.step(f"answer {LINKS[start][first].lower()}").achieved:
            name, *relations = goal.split()
            assert (name.title(), *relations) not in heldout


def test_a_first_observation_is_relabeled_with_another_chain():
    assert TASKS.relabel("ask mavel rival mentor", "mavel rival") == "ask mavel rival"
    with pytest.raises(TaskError, match="no first observation"):
        TASKS.relabel("mavel rival torbin", "mavel rival")


def test_a_task_of_another_world_is_refused_with_both_named():
    other = SearchTasks(OPTIONS.model_copy(update={"world": 7})).task("heldout", 0)
    with pytest.raises(TaskError, match=r"facts-7-240-3, and this environment has facts-0-240-3"):
        TASKS.environment().reset(other)
