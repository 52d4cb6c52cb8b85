"""TextWorld's games. Those that generate one are slow: a game takes seconds to compile."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("textworld", reason="pip install '.[textworld]'")

from agentrl_envs.environments.textworld_games import TextWorldOptions, TextWorldTasks

SMALL = TextWorldOptions(rooms=2, objects=2, quest=2, games=20)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_a_task_is_a_seed_and_the_size_of_a_game():
    task = TextWorldTasks(SMALL).task("train", 0)
    assert {**task.payload, "seed": 0} == {
        "rooms": 2,
        "objects": 2,
        "quest": 2,
        "seed": 0,
        "textworld": "1.7.0",
    }
    assert task.category == "2 commands"


def test_tasks_are_dealt_without_making_games(tmp_path: Path):
    tasks = TextWorldTasks(TextWorldOptions(games=1000))
    assert tasks.size("train") + tasks.size("heldout") == 1000
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_game_is_solved_by_its_own_walkthrough():
    import textworld

    from agentrl_envs.environments.textworld_games import game_file

    tasks = TextWorldTasks(SMALL)
    task, session = tasks.task("train", 0), tasks.environment()
    first = session.reset(task)
    place = game_file(task.id, task.payload)
    with_policy = textworld.start(str(place), textworld.EnvInfos(policy_commands=True))
    commands = with_policy.reset().policy_commands
    with_policy.close()
    assert set(commands[:1]) <= set(first.admissible or ())
    assert session.step("fly away").wellformed is False
    steps = [session.step(command) for command in commands]
    assert (steps[-1].success, steps[-1].terminated) == (True, True)
    assert sum(step.reward for step in steps) == pytest.approx(1.0)
    assert session.step("look").reward == 0
    session.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_contract_is_kept():
    from agentrl_envs.conformance.check import check

    report = check(TextWorldTasks(SMALL), tasks=2)
    assert report.passed, str(report)
