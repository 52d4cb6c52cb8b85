"""At most one process leads, whatever is slow, lost, frozen or killed."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl_operator.leader_election.election import (
    Candidate,
    LeaseName,
    LeaseRecord,
    Timing,
    next_step,
)
from agentrl_operator.testing.memory_leases import MemoryLeases

NAME = LeaseName(namespace="kubeflow", name="agentrl")
OTHERS = LeaseRecord(version="7", holder="other", duration_s=15)
MINE = LeaseRecord(version="8", holder="me", duration_s=15)
ME = Candidate(identity="me")


def test_the_first_step_is_to_get_the_lease():
    assert next_step(ME, 0.0) == "get"


@pytest.mark.parametrize("record", [None, replace(OTHERS, holder="")])
def test_a_lease_without_a_holder_is_acquired_at_once(record):
    assert next_step(ME.with_observation(record, 100.0), 100.0) == "acquire"


def test_a_lease_that_is_unchanged_for_its_duration_is_acquired():
    candidate = ME.with_observation(OTHERS, 100.0).with_observation(OTHERS, 110.0)
    assert next_step(candidate, 114.9) == "wait"
    assert next_step(candidate, 115.0) == "acquire"


def test_an_observed_renewal_restarts_the_wait():
    candidate = ME.with_observation(OTHERS, 100.0).with_observation(
        replace(OTHERS, version="9"), 110.0
    )
    assert next_step(candidate, 124.9) == "wait"
    assert next_step(candidate, 125.0) == "acquire"


@pytest.mark.parametrize(("held_s", "own_s"), [(30, 15), (15, 30), (0, 30)])
def test_the_longer_of_two_lease_durations_counts(held_s, own_s):
    me = Candidate(identity="me", timing=Timing(lease_duration_s=own_s))
    candidate = me.with_observation(replace(OTHERS, duration_s=held_s), 100.0)
    assert next_step(candidate, 129.9) == "wait"
    assert next_step(candidate, 130.0) == "acquire"


def test_the_renew_deadline_is_two_thirds_of_the_duration_after_the_update_was_sent():
    candidate = ME.with_observation(None, 99.0).with_update(MINE, 100.0, 104.0)
    assert candidate.deadline == 110.0
    assert next_step(candidate, 109.9) == "renew"
    assert next_step(candidate, 110.0) == "stop"


def test_a_leader_that_observes_another_holder_stops():
    held = ME.with_update(MINE, 100.0, 100.0)
    assert next_step(held.with_observation(replace(OTHERS, version="9"), 101.0), 101.0) == "stop"
    assert next_step(held.with_observation(None, 101.0), 101.0) == "stop"


def test_its_own_identity_in_the_lease_makes_no_leader_before_another_update():
    """The response to an update was lost, so the time at which it was sent is unknown."""
    candidate = ME.with_observation(MINE, 100.0)
    assert candidate.deadline is None
    assert next_step(candidate, 100.0) == "acquire"


def test_a_lease_name_includes_the_namespace():
    assert LeaseName.parse("kubeflow/agentrl") == NAME
    assert str(NAME) == "kubeflow/agentrl"
    for text in ("agentrl", "/agentrl", "kubeflow/", "a/b/c"):
        with pytest.raises(ValueError, match="NAMESPACE/NAME"):
            LeaseName.parse(text)


@dataclass
class Request:
    """A request in flight, which may never arrive."""

    sent: float
    observed: LeaseRecord | None
    holder: str | None
    """None: a read."""
    arrived: bool = False
    answer: LeaseRecord | None = None


@dataclass
class Operator:
    """A process with a clock of its own."""

    candidate: Candidate
    ahead_s: float
    rate: float
    awaited: Request | None = None
    in_flight: list[Request] = field(default_factory=list)
    rejected: bool = False
    """Somebody else updated the Lease: it has to be read again."""
    born: int = 0

    def clock(self, now):
        return self.ahead_s + self.rate * now

    def leads(self, now):
        return self.candidate.deadline is not None and self.clock(now) < self.candidate.deadline

    def restart(self):
        """Restart as another process. Requests in flight stay in flight."""
        self.born += 1
        name = f"{self.candidate.identity.partition('_')[0]}_{self.born}"
        self.candidate, self.awaited = Candidate(identity=name, timing=self.candidate.timing), None


class Election:
    """Two processes and the Lease in Kubernetes."""

    def __init__(self, ahead=(0.0, 0.0), rates=(1.0, 1.0), durations=(15, 15)):
        self.now = 0.0
        self.leases = MemoryLeases()
        self.operators = [
            Operator(
                Candidate(identity=name, timing=Timing(lease_duration_s=duration)), ahead_s, rate
            )
            for name, ahead_s, rate, duration in zip("ab", ahead, rates, durations, strict=True)
        ]

    def send(self, one):
        """Send the request of the next step; after a rejected update, a read."""
        now = one.clock(self.now)
        step = next_step(one.candidate, now)
        if step == "stop":
            one.restart()
            step = "get"
        writes = step in ("acquire", "renew") and not one.rejected
        one.awaited = Request(now, one.candidate.record, one.candidate.identity if writes else None)
        one.in_flight.append(one.awaited)

    def arrive(self, one, request):
        one.in_flight.remove(request)
        request.arrived = True
        request.answer = self.leases.records.get(NAME)
        if request.holder is not None:
            duration_s = one.candidate.timing.lease_duration_s
            request.answer = self.leases.put(NAME, request.holder, duration_s, request.observed)

    def answer(self, one):
        request, at = one.awaited, one.clock(self.now)
        one.awaited, one.rejected = None, request.holder is not None and request.answer is None
        if request.holder is None:
            one.candidate = one.candidate.with_observation(request.answer, at)
        elif request.answer is not None:
            one.candidate = one.candidate.with_update(request.answer, request.sent, at)

    def happens(self, what, one, delays_s):
        before_s, there_s, back_s = delays_s
        self.now += before_s
        match what:
            case "asks":
                self.send(one)
                self.now += there_s
                self.arrive(one, one.awaited)
                self.now += back_s
                self.answer(one)
            case "sends":
                self.send(one)
            case "arrives" if one.in_flight:
                self.arrive(one, one.in_flight[0])
            case "is answered" if one.awaited is not None and one.awaited.arrived:
                self.answer(one)
            case "killed":
                one.restart()
            case "stops" if one.leads(self.now):
                release = Request(one.clock(self.now), one.candidate.record, "")
                one.restart()
                one.in_flight.append(release)

    def leading(self):
        return [one.leads(self.now) for one in self.operators]


DELAYS_S = st.one_of(
    st.just((0.0, 0.0, 0.0)),
    st.permutations([0.0, 0.0, 0.5]),
    st.permutations([0.0, 0.0, 6.0]),
    st.permutations([0.0, 0.0, 15.5]),
    st.tuples(*[st.floats(0, 20)] * 3),
)
"""Delays in seconds before a request, of the request and of its response. The renew deadline is ten
seconds."""
STEP = st.tuples(
    st.integers(0, 1),
    st.sampled_from(["asks"] * 6 + ["sends", "arrives", "is answered", "killed", "stops"]),
    DELAYS_S,
)


@settings(max_examples=250)
@given(
    steps=st.lists(STEP, max_size=20),
    ahead=st.tuples(*[st.sampled_from([-1000.0, 0.0, 1000.0])] * 2),
    rates=st.tuples(*[st.sampled_from([0.9, 1.0, 1.1])] * 2),
    durations=st.tuples(*[st.sampled_from([10, 15])] * 2),
)
def test_no_two_processes_lead_at_the_same_time(steps, ahead, rates, durations):
    """Requests and responses take any time, get lost, or arrive when nobody waits for them."""
    election = Election(ahead, rates, durations)
    begun = [(who, "asks", (0.0, 0.0, 0.0)) for who in (0, 0, 1)]
    for who, what, delays_s in [*begun, *steps]:
        election.happens(what, election.operators[who], delays_s)
        assert sum(election.leading()) <= 1, (what, election.now)


def test_a_response_that_arrives_when_another_process_leads_makes_no_leader():
    election = Election()
    for who, what, before_s in [
        (0, "asks", 0.0),
        (0, "sends", 0.0),
        (0, "arrives", 0.0),
        (1, "asks", 0.0),
        (1, "asks", 15.0),
        (0, "is answered", 0.0),
    ]:
        election.happens(what, election.operators[who], (before_s, 0.0, 0.0))
    assert election.leading() == [False, True]


def test_a_waiting_process_acquires_the_lease_soon_after_the_leader_is_gone():
    """The same election without failures."""
    election = Election(ahead=(0.0, 50.0))

    def asks(one):
        for _ in range(2):
            election.send(one)
            election.arrive(one, one.awaited)
            election.answer(one)

    first, second = election.operators
    asks(first)
    for second_s in range(16):
        election.now = float(second_s)
        asks(second)
        assert election.leading() == [second_s < 10, second_s == 15]
