"""Who may act, whatever is slow, lost, frozen or killed."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl_operator.leader_election.election import Name, Record, Timing, View, move
from agentrl_operator.testing.memory_leases import MemoryLeases

NAME = Name(namespace="kubeflow", name="agentrl")
OTHERS = Record(version="7", holder="other", duration_s=15)
MINE = Record(version="8", holder="me", duration_s=15)
ME = View(me="me")


def test_at_first_one_looks():
    assert move(ME, 0.0) == "look"


@pytest.mark.parametrize("record", [None, replace(OTHERS, holder="")])
def test_what_nobody_holds_is_taken_at_once(record):
    assert move(ME.saw(record, 100.0), 100.0) == "take"


def test_what_stood_unchanged_for_its_duration_is_taken():
    view = ME.saw(OTHERS, 100.0).saw(OTHERS, 110.0)
    assert move(view, 114.9) == "wait"
    assert move(view, 115.0) == "take"


def test_a_renewal_that_is_seen_begins_the_count_anew():
    view = ME.saw(OTHERS, 100.0).saw(replace(OTHERS, version="9"), 110.0)
    assert move(view, 124.9) == "wait"
    assert move(view, 125.0) == "take"


@pytest.mark.parametrize(("held_s", "own_s"), [(30, 15), (15, 30), (0, 30)])
def test_of_two_durations_the_longer_one_counts(held_s, own_s):
    me = View(me="me", timing=Timing(duration_s=own_s))
    view = me.saw(replace(OTHERS, duration_s=held_s), 100.0)
    assert move(view, 129.9) == "wait"
    assert move(view, 130.0) == "take"


def test_the_holder_acts_for_two_thirds_of_the_duration_from_when_its_write_was_sent():
    view = ME.saw(None, 99.0).wrote(MINE, 100.0, 104.0)
    assert view.until == 110.0
    assert move(view, 109.9) == "renew"
    assert move(view, 110.0) == "lost"


def test_who_sees_another_holder_has_lost_it():
    held = ME.wrote(MINE, 100.0, 100.0)
    assert move(held.saw(replace(OTHERS, version="9"), 101.0), 101.0) == "lost"
    assert move(held.saw(None, 101.0), 101.0) == "lost"


def test_ones_own_name_in_the_lease_is_no_term_before_one_has_written_anew():
    """The answer to a write was lost: when it was sent is not known."""
    view = ME.saw(MINE, 100.0)
    assert view.until is None
    assert move(view, 100.0) == "take"


def test_a_lease_is_named_with_its_namespace():
    assert Name.read("kubeflow/agentrl") == NAME
    assert str(NAME) == "kubeflow/agentrl"
    for text in ("agentrl", "/agentrl", "kubeflow/", "a/b/c"):
        with pytest.raises(ValueError, match="NAMESPACE/NAME"):
            Name.read(text)


@dataclass
class Request:
    """On its way, for ever perhaps."""

    sent: float
    over: Record | None
    holder: str | None
    """None: it only reads."""
    arrived: bool = False
    answer: Record | None = None


@dataclass
class Operator:
    """One of them, with a clock of its own."""

    view: View
    ahead_s: float
    rate: float
    awaited: Request | None = None
    under_way: list[Request] = field(default_factory=list)
    refused: bool = False
    """Someone else wrote: over which version, is to be looked for."""
    born: int = 0

    def clock(self, now):
        return self.ahead_s + self.rate * now

    def acts(self, now):
        return self.view.until is not None and self.clock(now) < self.view.until

    def begin_anew(self):
        """As another process. What was sent is still on its way."""
        self.born += 1
        name = f"{self.view.me.partition('_')[0]}_{self.born}"
        self.view, self.awaited = View(me=name, timing=self.view.timing), None


class Election:
    """Two operators, and Kubernetes between them."""

    def __init__(self, ahead=(0.0, 0.0), rates=(1.0, 1.0), durations=(15, 15)):
        self.now = 0.0
        self.leases = MemoryLeases()
        self.operators = [
            Operator(View(me=name, timing=Timing(duration_s=duration)), ahead_s, rate)
            for name, ahead_s, rate, duration in zip("ab", ahead, rates, durations, strict=True)
        ]

    def send(self, one):
        """What is to be done next. After a write that was refused one looks."""
        now = one.clock(self.now)
        following = move(one.view, now)
        if following == "lost":
            one.begin_anew()
            following = "look"
        writes = following in ("take", "renew") and not one.refused
        one.awaited = Request(now, one.view.record, one.view.me if writes else None)
        one.under_way.append(one.awaited)

    def arrive(self, one, request):
        one.under_way.remove(request)
        request.arrived = True
        request.answer = self.leases.records.get(NAME)
        if request.holder is not None:
            duration_s = one.view.timing.duration_s
            request.answer = self.leases.put(NAME, request.holder, duration_s, request.over)

    def answer(self, one):
        request, at = one.awaited, one.clock(self.now)
        one.awaited, one.refused = None, request.holder is not None and request.answer is None
        if request.holder is None:
            one.view = one.view.saw(request.answer, at)
        elif request.answer is not None:
            one.view = one.view.wrote(request.answer, request.sent, at)

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
            case "arrives" if one.under_way:
                self.arrive(one, one.under_way[0])
            case "is answered" if one.awaited is not None and one.awaited.arrived:
                self.answer(one)
            case "killed":
                one.begin_anew()
            case "stops" if one.acts(self.now):
                given_back = Request(one.clock(self.now), one.view.record, "")
                one.begin_anew()
                one.under_way.append(given_back)

    def acting(self):
        return [one.acts(self.now) for one in self.operators]


DELAYS_S = st.one_of(
    st.just((0.0, 0.0, 0.0)),
    st.permutations([0.0, 0.0, 0.5]),
    st.permutations([0.0, 0.0, 6.0]),
    st.permutations([0.0, 0.0, 15.5]),
    st.tuples(*[st.floats(0, 20)] * 3),
)
"""Before a request, of the request, and of its answer. A term is over in ten seconds."""
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
def test_no_two_act_at_the_same_moment(steps, ahead, rates, durations):
    """Requests and answers take any time, get lost, or arrive when nobody waits for them."""
    election = Election(ahead, rates, durations)
    begun = [(who, "asks", (0.0, 0.0, 0.0)) for who in (0, 0, 1)]
    for who, what, delays_s in [*begun, *steps]:
        election.happens(what, election.operators[who], delays_s)
        assert sum(election.acting()) <= 1, (what, election.now)


def test_an_answer_that_comes_when_another_one_acts_already_gives_no_term():
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
    assert election.acting() == [False, True]


def test_one_that_waits_takes_it_soon_after_the_holder_has_gone():
    """The same election, where all goes well."""
    election = Election(ahead=(0.0, 50.0))

    def asks(one):
        for _ in range(2):
            election.send(one)
            election.arrive(one, one.awaited)
            election.answer(one)

    first, second = election.operators
    asks(first)
    for second_of_time in range(16):
        election.now = float(second_of_time)
        asks(second)
        assert election.acting() == [second_of_time < 10, second_of_time == 15]
