"""How many servers an environment should have."""

from hypothesis import given
from hypothesis import strategies as st

from agentrl_components.spec import Scaling
from agentrl_operator.planning.observation import FleetSample, ServerLoad
from agentrl_operator.planning.scaling import servers_needed, servers_wanted

SCALING = Scaling(min_replicas=1, max_replicas=10, target_share=0.7, down_after_s=300)


def sample(*sessions, age_s=0.0, capacity=10):
    loads = tuple(
        ServerLoad(pod=f"pod-{number}", sessions=count, capacity=capacity)
        for number, count in enumerate(sessions)
    )
    return FleetSample(age_s=age_s, loads=loads)


def test_servers_are_chosen_for_the_target_share():
    assert servers_needed(sample(7), SCALING) == 1  # 7 of 10 is the target
    assert servers_needed(sample(8), SCALING) == 2
    rounded = SCALING.model_copy(update={"target_share": 0.57})  # 100 * .57 < 57 in floats
    assert servers_needed(sample(57, capacity=100), rounded) == 1
    assert servers_needed(sample(10, 10), SCALING) == 3  # 20 of 30
    assert servers_needed(sample(0), SCALING) == 1
    assert servers_needed(sample(*[10] * 10), SCALING) == 10  # 15 would be needed


def test_more_servers_come_at_once():
    assert servers_wanted(1, [sample(10)], SCALING) == 2


def test_servers_go_only_when_fewer_were_enough_for_the_whole_window():
    quiet = [sample(0, 0, 0, age_s=age) for age in (299, 150, 0)]
    assert servers_wanted(3, quiet, SCALING) == 3  # known for 299 s
    for known_s in (300, 301):
        quiet = [sample(0, 0, 0, age_s=age) for age in (known_s, 150, 0)]
        assert servers_wanted(3, quiet, SCALING) == 1
    pause = [sample(0, 0, age_s=310), sample(10, 9, age_s=200), sample(0, 0)]
    assert servers_wanted(3, pause, SCALING) == 3  # an update is no reason to remove servers


def test_bounds_hold_before_anything_is_known():
    assert servers_wanted(0, [], SCALING) == 1
    assert servers_wanted(12, [], SCALING) == 10


@st.composite
def scalings(draw):
    low = draw(st.integers(1, 8))
    return Scaling(
        min_replicas=low,
        max_replicas=draw(st.integers(low, 16)),
        target_share=draw(st.floats(0.05, 1.0)),
        down_after_s=draw(st.integers(0, 600)),
    )


@st.composite
def histories(draw):
    """Samples of servers with 8 sessions each, the oldest first."""
    ages = sorted(draw(st.lists(st.floats(0, 900), max_size=12)), reverse=True)
    loads = st.lists(st.integers(0, 8), min_size=1, max_size=16)
    return [sample(*draw(loads), age_s=age, capacity=8) for age in ages]


@given(scalings(), histories(), st.integers(0, 20))
def test_number_of_servers_stays_within_its_bounds(scaling, history, current):
    wanted = servers_wanted(current, history, scaling)
    assert scaling.min_replicas <= wanted <= scaling.max_replicas


@given(scalings(), histories(), st.integers(0, 20))
def test_decision_is_stable(scaling, history, current):
    wanted = servers_wanted(current, history, scaling)
    assert servers_wanted(wanted, history, scaling) == wanted


@given(scalings(), histories(), st.integers(0, 20))
def test_no_server_goes_that_was_needed_in_the_window(scaling, history, current):
    wanted = servers_wanted(current, history, scaling)
    recent = [one for one in history if one.age_s <= scaling.down_after_s]
    bounded = min(max(current, scaling.min_replicas), scaling.max_replicas)
    if wanted < bounded:
        assert all(servers_needed(one, scaling) <= wanted for one in recent)


@given(scalings(), st.lists(st.integers(0, 8), min_size=1, max_size=16), st.integers(0, 7))
def test_more_sessions_never_want_fewer_servers(scaling, loads, more):
    busier = [min(8, count + more) for count in loads]
    before = servers_needed(sample(*loads, capacity=8), scaling)
    assert servers_needed(sample(*busier, capacity=8), scaling) >= before


@given(scalings(), st.lists(st.integers(0, 8), min_size=1, max_size=16))
def test_share_is_not_above_the_target_below_the_ceiling(scaling, loads):
    needed = servers_needed(sample(*loads, capacity=8), scaling)
    if needed < scaling.max_replicas:
        assert sum(loads) <= 8 * needed * scaling.target_share + 1e-6
