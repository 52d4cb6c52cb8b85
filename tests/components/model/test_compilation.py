"""What is compiled."""

from agentrl_components.model.compilation import chosen


def test_what_is_not_compiled_is_the_function_itself():
    assert chosen(sum, compiled=False) is sum
