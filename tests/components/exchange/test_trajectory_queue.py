"""Episodes are kept until they are learned from; those played ahead in vain are deleted."""

from dataclasses import replace

import pytest
from corridor_rules import RULES

from agentrl_components.errors import StoreError
from agentrl_components.exchange.trajectory_queue import TrajectoryQueue
from agentrl_components.rollout.episode import EpisodeState, Job, trajectory
from agentrl_components.storage import keys
from agentrl_components.storage.open import MemoryStore
from agentrl_components.trajectory.record import Trajectory, Turn
from agentrl_envs.environments.corridor import CorridorTasks

TURN = Turn(start=0, end=0, reward=0.0, wellformed=True, action="left", observation="", version=2)


def episode(iteration: int) -> Trajectory:
    task = CorridorTasks().task("train", 0)
    job = Job(
        environment="corridor", instructions="", task=task, group=0, sample=0, iteration=iteration
    )
    return trajectory(job, RULES, EpisodeState())


def filled(*played: tuple[int, int]) -> tuple[TrajectoryQueue, MemoryStore]:
    store = MemoryStore()
    queue = TrajectoryQueue(store)
    for number, policy in played:
        queue.put(number, policy, [episode(number)])
    return queue, store


def test_episodes_can_be_taken_repeatedly():
    queue, _ = filled((3, 2))
    for _ in range(2):
        (taken,) = queue.take(3, 2)
        assert (taken.iteration, taken.task) == (3, episode(3).task)


def test_episodes_of_another_policy_are_not_taken():
    queue, _ = filled((3, 1))
    assert queue.has(3, 1)
    assert not queue.has(3, 2)
    with pytest.raises(StoreError):
        queue.take(3, 2)


def test_episodes_that_differ_in_their_times_only_may_be_put_twice():
    """As after a restart between the writing of episodes and the record of it."""
    store = MemoryStore()
    queue = TrajectoryQueue(store)
    slow, fast = (replace(TURN, started_s=at, duration_s=2 * at) for at in (0.5, 0.25))
    queue.put(3, 2, [replace(episode(3), turns=(slow,))])
    queue.put(3, 2, [replace(episode(3), turns=(fast,))])
    (taken,) = queue.take(3, 2)
    assert taken.turns[0].duration_s == 1.0
    with pytest.raises(StoreError, match="other"):
        queue.put(3, 2, [replace(episode(3), turns=(replace(fast, action="right"),))])


def test_covered_iterations_and_those_played_ahead_in_vain_are_deleted():
    """Iterations 4 and 5 were played by policies 3 and 4; then a phase ended, and policy 4 plays
    both. Checkpoints cover the first two."""
    queue, store = filled((0, 0), (1, 0), (2, 1), (3, 2), (4, 3), (5, 4))
    queue.forget(2, 4, 4)
    assert [keys.iteration_and_policy(key) for key in store.list("")] == [(2, 1), (3, 2), (5, 4)]


def test_episodes_of_policies_that_will_be_others_are_deleted():
    queue, store = filled((9, 8), (10, 9), (10, 10), (11, 10), (11, 11), (12, 11))
    queue.forget_policies_after(10)
    left = [keys.iteration_and_policy(key) for key in store.list("")]
    assert left == [(9, 8), (10, 9), (10, 10), (11, 10)]
