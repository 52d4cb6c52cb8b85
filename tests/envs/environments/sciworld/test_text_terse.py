import pytest

from agentrl_envs.environments.sciworld.text_terse import Terse, kind_of

FORM = Terse()


def test_words_of_the_vocabulary_are_unique():
    words = FORM.vocabulary()
    assert len(set(words)) == len(words)


@pytest.mark.parametrize(
    ("goal", "kind"),
    [
        ("Your task is to find a(n) plant.", "find"),
        ("Your task is to find the animal with the longest life span.", "observe"),
        ("Your task is to focus on the 4 life stages of the turtle.", "observe"),
        ("Your task is to determine if foil is electrically conductive.", "circuit"),
        ("Your task is to turn on the bulb. Then, create an electrical circuit.", "circuit"),
        ("Your task is to boil water.", "matter"),
    ],
)
def test_the_kind_of_a_task_follows_from_its_description(goal, kind):
    assert kind_of(goal) == kind
