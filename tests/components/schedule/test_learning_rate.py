import pytest

from agentrl_components.schedule.learning_rate import cosine_decay


def test_cosine_decay_ends_at_a_tenth_of_the_rate():
    assert cosine_decay(0, 10, 1.0) == pytest.approx(1.0)
    assert cosine_decay(5, 10, 1.0) == pytest.approx(0.55)
    assert cosine_decay(10, 10, 1.0) == pytest.approx(0.1)
