"""Which tasks are drawn: shares by weight, consecutive batches."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl_components.errors import RunError
from agentrl_components.rollout.tasks import (
    REDRAWS,
    DrawnTask,
    TaskPrefetcher,
    TaskSource,
    in_place_of_others,
    shares,
)
from agentrl_components.spec import Environment
from agentrl_envs.env import Task
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.errors import SessionError, TaskError, UnreachableError
from agentrl_envs.world import LocalSession, LocalWorld


@pytest.mark.parametrize(
    ("weights", "count", "expected"),
    [([1, 1], 5, [3, 2]), ([3, 1], 8, [6, 2]), ([1, 1, 1], 2, [1, 1, 0]), ([2], 7, [7])],
)
def test_shares_follow_the_weights_with_ties_to_the_earlier(weights, count, expected):
    assert shares(weights, count) == expected


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=8), st.integers(0, 500))
def test_shares_add_up_and_are_within_one_of_exact(weights, count):
    found = shares(weights, count)
    assert sum(found) == count
    for weight, share in zip(weights, found, strict=True):
        assert abs(share - count * weight / sum(weights)) < 1 + 1e-6


def source():
    names = [("a", 3.0), ("b", 1.0)]
    environments = [Environment(name=n, builtin="corridor", weight=w) for n, w in names]
    return TaskSource(environments, {n: LocalWorld(CorridorTasks()) for n, _ in names})


async def test_batches_are_consecutive_slices_of_each_environments_stream():
    drawn = [await source().draw("train", 8, batch) for batch in range(2)]
    assert [d.environment for d in drawn[0]] == ["a"] * 6 + ["b"] * 2
    deal = CorridorTasks()
    assert [d.task for d in drawn[1]][:6] == [deal.task("train", i) for i in range(6, 12)]
    assert [d.task for d in drawn[1]][6:] == [deal.task("train", i) for i in range(2, 4)]


class Numbered(CorridorTasks):
    """`train` training tasks (None: without end), whose ids are their indices."""

    def __init__(self, train):
        super().__init__()
        self._train = train

    def size(self, split):
        return self._train if split == "train" else super().size(split)

    def task(self, split, index):
        return Task(
            id=str(index if self._train is None else index % self._train), category="", payload={}
        )


def numbered(train):
    """A source of tasks of one environment."""
    environments = [Environment(name="a", builtin="corridor")]
    return TaskSource(environments, {"a": LocalWorld(Numbered(train))})


async def numbers(tasks, count, batch, refills):
    drawn = await tasks.draw("train", count, batch, refills)
    return [int(one.task.id) for one in drawn]


@pytest.mark.parametrize(("train", "count", "refills"), [(100, 20, 4), (120, 20, 4), (512, 16, 3)])
async def test_iterations_without_silent_groups_play_each_task_before_any_again(
    train, count, refills
):
    tasks, played = numbered(train), []
    for number in range(train // count):
        played += await numbers(tasks, count, number * (refills + 1), refills)
    assert played == list(range(train))


async def test_the_batches_of_an_iteration_have_different_tasks_of_a_finite_split():
    tasks = numbered(100)
    for number in range(12):
        first = number * 5
        drawn = {i for batch in range(first, first + 5) for i in await numbers(tasks, 20, batch, 4)}
        assert len(drawn) == 100


async def test_refills_of_a_finite_split_begin_with_other_tasks_each_time_it_starts_over():
    """40 tasks, 20 in each batch: the second of iteration 0 has those from 20 on, and the split
    starts over every second iteration."""
    tasks = numbered(40)
    firsts = [(await numbers(tasks, 20, number * 2 + 1, 1))[:2] for number in range(5)]
    assert firsts == [[20, 21], [0, 1], [21, 22], [1, 2], [22, 23]]


async def test_batches_of_a_split_without_end_are_consecutive_slices_with_refills_too():
    tasks = numbered(None)
    drawn = [await numbers(tasks, 4, batch, 2) for batch in range(6)]
    assert drawn == [list(range(first, first + 4)) for first in range(0, 24, 4)]


@pytest.mark.parametrize(
    ("useful", "taken"),
    [
        ({}, {"a": 6, "b": 2}),
        ({"a": 5, "b": 1}, {"a": 1, "b": 1}),
        ({"a": 6, "b": 1}, {"b": 1}),
        ({"a": 1, "b": 2}, {"a": 5}),
        ({"b": 4}, {"a": 4}),  # when its weight was larger, because another one was down
    ],
)
async def test_tasks_in_the_place_of_others_are_of_the_environments_that_lack_groups(useful, taken):
    drawn = await source().draw("train", 8)
    found = in_place_of_others(drawn, Counter(useful))
    assert Counter(one.environment for one in found) == taken
    for name, count in taken.items():
        first = [one for one in drawn if one.environment == name][:count]
        assert [one for one in found if one.environment == name] == first


async def test_heldout_tasks_are_never_drawn_twice():
    drawn = await source().draw("heldout", 400)
    for name in ("a", "b"):
        ids = [d.task.id for d in drawn if d.environment == name]
        assert len(ids) == len(set(ids)) == CorridorTasks().size("heldout")


class Gone(LocalWorld):
    """A world that cannot deal any more."""

    async def task(self, split, index):
        raise SessionError("http://a: connection refused")


async def test_without_an_environment_that_is_up_the_error_names_all_and_why():
    """As when one cannot deal, and all episodes of the other are lost at the same time."""
    environments = [Environment(name=name, builtin="corridor") for name in "ab"]
    worlds = {"a": Gone(CorridorTasks()), "b": LocalWorld(CorridorTasks())}
    tasks = TaskSource(environments, worlds)
    assert {one.environment for one in await tasks.draw("train", 4, 1)} == {"b"}
    tasks.down["b"] = "SessionError: the server is full (tried 3 times)"
    with pytest.raises(RunError) as raised:
        await tasks.draw("train", 4, 0)
    assert str(raised.value).startswith(
        "spec.environments: all environments are down (a: http://a: connection refused; "
        "b: SessionError: the server is full (tried 3 times)); run the same command again"
    )
    assert await tasks.probe() == ["b"]
    assert len(await tasks.draw("train", 4, 0)) == 4


class SlowWorld(LocalWorld):
    """A world whose resets take until `gate` is set, and then fail while `fails` is set."""

    def __init__(self):
        super().__init__(CorridorTasks())
        self.gate = asyncio.Event()
        self.fails = False
        self.begun = asyncio.Event()
        """Set when a reset begins."""
        self.ended = 0
        """Sessions that were closed."""

    def session(self):
        world = self

        class Session(LocalSession):
            async def reset(self, task):
                world.begun.set()
                try:
                    await world.gate.wait()
                except asyncio.CancelledError:  # as of a session that a server is opening
                    await world.gate.wait()
                if world.fails:
                    raise SessionError("http://a: connection refused")
                return await super().reset(task)

            async def close(self):
                world.ended += 1

        return Session(self.task_set.environment, self.name)


def source_of(probe_s, **worlds):
    """A source whose environments are all down."""
    environments = [Environment(name=name, builtin="corridor") for name in worlds]
    tasks = TaskSource(environments, worlds, probe_s)
    tasks.down |= dict.fromkeys(worlds, "connection refused")
    return tasks


async def test_environments_that_are_down_are_tried_at_the_same_time():
    first, second = SlowWorld(), SlowWorld()
    first.gate, second.gate = second.begun, first.begun
    tasks = source_of(60.0, a=first, b=second)
    assert await tasks.probe() == ["a", "b"]
    assert tasks.down == {}


async def test_an_environment_that_answers_late_is_back_later():
    slow = SlowWorld()
    tasks = source_of(0.0, a=slow, b=LocalWorld(CorridorTasks()))
    assert await tasks.probe() == ["b"]
    assert await tasks.probe() == []
    slow.gate.set()
    while not (back := await tasks.probe()):
        pass
    assert back == ["a"]
    assert slow.ended == 1
    assert tasks.down == {}


async def test_an_environment_that_fails_late_is_tried_again():
    slow = SlowWorld()
    slow.fails = True
    tasks = source_of(0.0, a=slow)
    assert await tasks.probe() == []
    slow.gate.set()
    while slow.ended < 2:
        assert await tasks.probe() == []
    slow.fails = False
    while not (back := await tasks.probe()):
        pass
    assert back == ["a"]


async def test_a_source_that_is_closed_ends_the_probes_under_way():
    slow = SlowWorld()
    tasks = source_of(0.0, a=slow)
    assert await tasks.probe() == []
    assert slow.ended == 0
    await tasks.close()
    assert slow.ended == 1


class Draws:
    """Draws of tasks, of which those whose turn it is in `failing` fail."""

    def __init__(self, failing, error=UnreachableError):
        self.failing, self.error = failing, error
        self.batches = []
        """The batches that were asked for, in order."""

    def __call__(self, split, count, batch):
        self.batches.append(batch)
        if len(self.batches) - 1 in self.failing:
            raise self.error("http://a: cannot reach the server")
        return [
            DrawnTask("a", CorridorTasks().task(split, batch * count + i)) for i in range(count)
        ]


@contextmanager
def prefetcher(draws, refills=0) -> Iterator[tuple[TaskPrefetcher, list[str]]]:
    notes: list[str] = []
    with closing(TaskPrefetcher(draws, 2, notes.append, 0.0, refills)) as tasks:
        yield tasks, notes


def test_tasks_whose_prefetch_failed_are_drawn_again_when_they_are_taken():
    """As when the server restarts while the batch before is played."""
    draws = Draws({1, 2})
    with prefetcher(draws) as (tasks, notes):
        first, second = tasks.take(0), tasks.take(1)
        assert [d.task for d in (*first, *second)] == [
            CorridorTasks().task("train", i) for i in range(4)
        ]
    assert draws.batches[:4] == [0, 1, 1, 1]
    assert notes == ["drawing tasks again: http://a: cannot reach the server"] * 2


def test_what_is_drawn_ahead_is_what_the_next_iteration_plays_first():
    """Iteration n has batches 3 n to 3 n + 2; the second iteration plays one refill."""
    draws = Draws(())
    with prefetcher(draws, refills=2) as (tasks, _):
        for batch in (0, 3, 4, 6, 9):
            assert [d.task for d in tasks.take(batch)] == [
                CorridorTasks().task("train", i) for i in (2 * batch, 2 * batch + 1)
            ]
    assert draws.batches[:5] == [0, 3, 6, 4, 9]  # 12 may have been drawn, too


def test_after_an_outage_what_was_drawn_ahead_is_drawn_anew():
    draws = Draws(())
    with prefetcher(draws, refills=1) as (tasks, _):
        tasks.take(0)
        tasks.discard()
        tasks.take(1)  # waits for the thread, which draws in order
        tasks.take(2)
    assert draws.batches[:4] == [0, 2, 1, 2]


def test_tasks_that_cannot_be_drawn_for_minutes_are_an_error():
    draws = Draws(range(100))
    with prefetcher(draws) as (tasks, _), pytest.raises(UnreachableError):
        tasks.take(0)
    assert draws.batches == [0] * (REDRAWS + 1)


def test_tasks_are_not_drawn_again_after_an_error_that_stays():
    draws = Draws({0}, TaskError)
    with prefetcher(draws) as (tasks, notes), pytest.raises(TaskError):
        tasks.take(0)
    assert draws.batches == [0]
    assert notes == []
