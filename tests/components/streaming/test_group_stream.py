"""The bound on staleness and on the queue, with samplers that complete groups in any order."""

import pytest
from corridor_rules import RULES
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl_components.rollout.episode import EpisodeState, Job, trajectory
from agentrl_components.streaming.group_stream import GroupStream
from agentrl_components.trajectory.record import Turn
from agentrl_envs.environments.corridor import CorridorTasks

TASK = CorridorTasks().task("train", 0)


class FakeSamplers:
    """Implements `StreamingSamplers`: `order` chooses which group under way is completed next, and
    how many were completed before they are waited for."""

    def __init__(self, order):
        self.order = order
        self.version = 0
        self.playing = {}
        """Versions of the tokens that were sampled so far, by group."""
        self.started = self.most = 0

    def start(self, number, jobs, rules):
        self.started += 1
        self.playing[number] = [self.version]
        self.most = max(self.most, len(self.playing))

    def wait(self):
        number = sorted(self.playing)[self.order() % len(self.playing)]
        versions = (*self.playing.pop(number), self.version)
        turn = Turn(
            start=0,
            end=len(versions),
            reward=0.0,
            wellformed=True,
            action="",
            observation="",
            version=versions[0],
            versions=versions,
        )
        return [(number, [trajectory(job(number), RULES, EpisodeState(turns=[turn]))])]

    def poll(self):
        completed = self.order() % (len(self.playing) + 1)
        return [group for _ in range(completed) for group in self.wait()]

    def hand_over(self):
        self.version += 1
        for versions in self.playing.values():
            versions.append(self.version)

    def cancel(self):
        self.playing.clear()


def job(number):
    return Job(
        environment="corridor", instructions="", task=TASK, group=number, sample=0, iteration=0
    )


def fill(stream):
    while stream.under_way + stream.waiting < stream.bound:
        stream.start([job(0)], RULES)


@given(data=st.data(), size=st.integers(1, 4), lag=st.integers(0, 3), updates=st.integers(1, 12))
@settings(max_examples=150, deadline=None)
def test_no_token_is_too_old_the_queue_is_bounded_and_groups_are_learnt_from_once_or_dropped(
    data, size, lag, updates
):
    samplers = FakeSamplers(lambda: data.draw(st.integers(0, 11)))
    stream = GroupStream(samplers, size=size, max_staleness=lag)
    learnt = []
    for update in range(updates):
        fill(stream)
        assert stream.under_way + stream.waiting == stream.bound == (lag + 1) * size
        groups = stream.take()
        assert len(groups) == size
        for (episode,) in groups:
            learnt.append(episode.group)
            (turn,) = episode.turns
            assert all(update - version <= lag for version in turn.versions)
        samplers.hand_over()
    assert samplers.most <= stream.bound
    dropped = stream.drop()
    assert len(set(learnt)) == len(learnt)
    assert len(learnt) + dropped == samplers.started
    assert stream.under_way == stream.waiting == 0


def test_groups_that_were_completed_during_an_update_are_known_before_others_are_started():
    stream = GroupStream(FakeSamplers(lambda: 3), size=2, max_staleness=1)
    fill(stream)
    assert (stream.under_way, stream.waiting) == (4, 0)
    stream.poll()
    assert (stream.under_way, stream.waiting) == (1, 3)


def test_a_group_beyond_the_bound_is_refused():
    stream = GroupStream(FakeSamplers(lambda: 0), size=2, max_staleness=1)
    fill(stream)
    with pytest.raises(ValueError, match="4 groups are under way or wait already"):
        stream.start([job(9)], RULES)


def test_an_update_without_enough_groups_is_refused():
    stream = GroupStream(FakeSamplers(lambda: 0), size=2, max_staleness=1)
    stream.start([job(0)], RULES)
    with pytest.raises(ValueError, match="only 1 of 2 groups"):
        stream.take()


def test_a_stream_goes_on_after_its_groups_were_dropped():
    stream = GroupStream(FakeSamplers(lambda: 0), size=1, max_staleness=1)
    fill(stream)
    assert stream.drop() == 2
    fill(stream)
    ((episode,),) = stream.take()
    assert episode.group == 2
