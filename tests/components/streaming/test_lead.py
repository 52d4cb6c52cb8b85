"""How far ahead of the trainers samplers play."""

from hypothesis import given
from hypothesis import strategies as st

from agentrl_components.streaming.lead import Lead


def test_a_lead_begins_with_one_update():
    assert Lead(3).updates == 1


def test_a_lead_grows_up_to_its_bound_while_trainers_wait():
    lead = Lead(3)
    found = []
    for _ in range(4):
        lead.follow(waited_share=0.06, spare_updates=0.0)
        found.append(lead.updates)
    assert found == [2, 3, 3, 3]


def test_a_lead_stays_while_trainers_wait_for_nothing_and_no_update_is_spare():
    lead = Lead(3, updates=2)
    lead.follow(waited_share=0.05, spare_updates=0.9)
    assert lead.updates == 2


def test_a_lead_shrinks_to_one_update_while_the_groups_of_another_wait():
    lead = Lead(3, updates=3)
    found = []
    for _ in range(3):
        lead.follow(waited_share=0.0, spare_updates=1.0)
        found.append(lead.updates)
    assert found == [2, 1, 1]


@given(
    most=st.integers(0, 4),
    iterations=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 4))),
)
def test_a_lead_is_at_least_one_update_where_staleness_permits_it(most, iterations):
    lead = Lead(most)
    for waited_share, spare_updates in iterations:
        lead.follow(waited_share=waited_share, spare_updates=spare_updates)
        assert min(1, most) <= lead.updates <= most
