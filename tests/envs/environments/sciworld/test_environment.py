"""Sessions in a real JVM."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentrl_envs.env import Step, Task
from agentrl_envs.environments.sciworld import SciWorldOptions, SciWorldTasks
from agentrl_envs.environments.sciworld.environment import SciWorldEnvironment
from agentrl_envs.environments.sciworld.payload import task_of
from agentrl_envs.errors import SessionError

pytestmark = pytest.mark.usefixtures("java")

LIVING = task_of("find-living-thing", 0, "train")
LIVING_GOLD = (
    "open door to kitchen",
    "go to kitchen",
    "open door to outside",
    "go to outside",
    "focus on butterfly",
    "pick up butterfly",
    "go to kitchen",
    "move butterfly to red box",
)


def session(**options: object) -> SciWorldEnvironment:
    return SciWorldTasks(SciWorldOptions.model_validate(options)).environment()


def play(environment: SciWorldEnvironment, *commands: str) -> list[Step]:
    return [environment.step(f"Thought: hm.\nAction: {command}") for command in commands]


@pytest.fixture
def english() -> SciWorldEnvironment:
    environment = session(text="agentgym")
    yield environment
    environment.close()


@pytest.fixture
def terse() -> SciWorldEnvironment:
    environment = session()
    yield environment
    environment.close()


def test_the_first_observation_is_the_task_and_the_room(english):
    first = english.reset(LIVING)
    assert first.text.startswith(
        "Your task is to find a(n) living thing. First, focus on the thing. Then, move it to the "
        "red box in the kitchen.\nThis room is called the hallway."
    )
    assert first.admissible is None


def test_upstream_scores_up_to_100_and_here_rewards_sum_to_1_with_the_raw_score_kept(english):
    english.reset(LIVING)
    steps = play(english, *LIVING_GOLD)
    assert sum(step.reward for step in steps) == pytest.approx(1)
    assert [step.raw_score for step in steps] == [8, 25, 25, 25, 75, 83, 83, 100]
    assert steps[-1].terminated
    assert steps[-1].success
    assert not any(step.success for step in steps[:-1])


def test_upstream_scores_a_wrong_focus_minus_100_and_here_it_ends_the_episode_with_score_0(english):
    english.reset(LIVING)
    steps = play(english, "open door to kitchen", "focus on picture", "go to kitchen")
    assert sum(step.reward for step in steps) == pytest.approx(0)
    failed, after = steps[1], steps[2]
    assert (failed.terminated, failed.success, failed.raw_score) == (True, False, -100)
    assert (after.terminated, after.wellformed, after.reward) == (True, False, 0)


def test_upstream_counts_any_score_as_a_pass_and_here_a_partial_score_is_no_success():
    environment = session(text="agentgym", step_limit=2)
    environment.reset(LIVING)
    steps = play(environment, "open door to kitchen", "go to kitchen", "wait1")
    assert [step.truncated for step in steps] == [False, False, True]
    assert sum(step.reward for step in steps) == pytest.approx(0.25)
    assert not any(step.success or step.terminated for step in steps)
    environment.close()


def test_the_reward_can_be_the_full_score_alone():
    environment = session(text="agentgym", reward="goal")
    environment.reset(LIVING)
    rewards = [step.reward for step in play(environment, *LIVING_GOLD)]
    assert rewards == [0, 0, 0, 0, 0, 0, 0, 1]
    environment.close()


def test_an_unknown_action_takes_no_time_and_is_not_wellformed(english):
    english.reset(LIVING)
    unknown, known = play(english, "xyzzy", "look around")
    assert (unknown.wellformed, unknown.observation.text) == (
        False,
        "No known action matches that input.",
    )
    assert known.wellformed


def test_an_ambiguous_action_is_answered_by_a_number(english):
    english.reset(task_of("find-plant", 3, "train"))
    steps = play(english, "open door to greenhouse", "go to greenhouse", "pick up flower pot", "1")
    assert steps[2].observation.text.endswith("\n4:\tpick up flower pot 9 (in greenhouse)")
    assert steps[3].observation.text == "You move the flower pot 3 to the inventory."


def test_the_terse_form_lists_its_actions_and_plays_them(terse):
    first = terse.reset(LIVING)
    assert (
        first.text
        == "goal find living then red box kitchen ; at hallway ; see picture ; have orange"
    )
    assert first.admissible is not None
    assert first.admissible[3] == "go kitchen"
    actions = "go kitchen", "go outside", "focus butterfly", "take butterfly", "go kitchen"
    steps = [terse.step(action) for action in (*actions, "put butterfly egg in red box")]
    assert all(step.wellformed for step in steps)
    assert steps[-1].success


def test_a_reply_that_is_not_listed_changes_nothing(terse):
    first = terse.reset(LIVING)
    step = terse.step("go outside")
    assert step.observation.text == "no ; at hallway ; see picture ; have orange"
    assert (step.wellformed, step.observation.admissible) == (False, first.admissible)


def test_upstream_starts_a_jvm_for_each_session_and_here_sessions_share_one():
    tasks = SciWorldTasks(SciWorldOptions(worlds=3))
    sessions = [tasks.environment() for _ in range(3)]
    for environment in sessions:
        environment.reset(LIVING)
    assert len(jvms(sessions)) == 1
    with pytest.raises(SessionError, match="all 3 worlds are in use; raise the options jvms or"):
        tasks.environment().reset(LIVING)
    for environment in sessions:
        environment.close()
        environment.close()  # upstream answers a second close with 500
    another = tasks.environment()  # upstream keeps what it closed
    another.reset(LIVING)
    another.close()


def jvms(sessions: list[SciWorldEnvironment]) -> set[int]:
    return {environment.jvm_pid for environment in sessions if environment.jvm_pid is not None}


def test_a_jvm_that_dies_loses_its_sessions_and_is_replaced():
    tasks = SciWorldTasks(SciWorldOptions(worlds=4))
    one, other = tasks.environment(), tasks.environment()
    one.reset(LIVING)
    other.reset(LIVING)
    (pid,) = jvms([one, other])
    os.kill(pid, signal.SIGKILL)
    for environment in (one, other):
        with pytest.raises(SessionError, match=f"JVM {pid} has died"):
            environment.step("wait")
    again = one.reset(LIVING)
    assert again.text.startswith("goal find living")
    assert one.step("wait").wellformed
    assert jvms([one]) != {pid}
    one.close()
    other.close()


def test_upstreams_simulator_is_not_threadsafe_and_here_threads_play_what_one_alone_plays():
    tasks = SciWorldTasks()
    dealt = [tasks.task("train", index) for index in range(4)]
    barrier = threading.Barrier(len(dealt))

    def episode(task: Task) -> list[str]:
        environment = tasks.environment()
        shown = [environment.reset(task)]
        for turn in range(5):
            walks = [a for a in shown[-1].admissible or () if a.startswith(("go ", "take "))]
            shown.append(environment.step(walks[turn % len(walks)]).observation)
        environment.close()
        return [observation.text for observation in shown]

    def at_once(task: Task) -> list[str]:
        barrier.wait(30)
        return episode(task)

    with ThreadPoolExecutor(len(dealt)) as threads:
        together = list(threads.map(at_once, dealt))
    assert together == [episode(task) for task in dealt]
