import random

import pytest

from agentrl_envs.environments.babyai import LEVELS, BabyAIOptions, BabyAITasks
from agentrl_envs.environments.babyai.actions import Refusal, sight
from agentrl_envs.environments.babyai.field_of_view import look
from agentrl_envs.environments.babyai.text_terse import Terse
from agentrl_envs.errors import TaskError

FORM = Terse()


def seen_in(game):
    view = look(game)
    return sight(view, tuple(map(FORM.name, view.things)), FORM.take)


def test_observation_names_objects_wall_and_carried_object(layout):
    rows = ["########", "#......#", "#>....b#", "#..d####", "########"]
    game = layout(rows, carrying="purple key", b="red ball", d="locked purple door")
    assert FORM.later(seen_in(game), "") == (
        "see locked purple door 1 2 ahead 1 right ; red ball 1 5 ahead ; wall 6 ahead ; "
        "carry purple key"
    )


def test_observation_of_an_empty_view_is_see_nothing(layout):
    rows = ["###########", "#>........#", "###########"]
    assert FORM.later(seen_in(layout(rows)), "") == "see nothing"


def test_first_observation_begins_with_the_goal(layout):
    seen = seen_in(layout(["#####", "#>..#", "#####"]))
    text = FORM.first("pick up a red object", seen)
    assert text == "goal pick up a red object ; see nothing ; wall 3 ahead"


def test_outcome_and_refusal_precede_the_view(layout):
    seen = seen_in(layout(["#####", "#>..#", "#####"]))
    assert FORM.later(seen, "done") == "done ; see nothing ; wall 3 ahead"
    assert FORM.refused(seen, "", Refusal.UNKNOWN) == "unknown ; see nothing ; wall 3 ahead"
    assert FORM.refused(seen, "", Refusal.FULL) == "no carry ; see nothing ; wall 3 ahead"


def test_parser_normalizes_whitespace_and_pickup():
    assert FORM.parse(" go  to\nred ball 1 ") == "go to red ball 1"
    assert FORM.parse("pickup red ball 1") == "pick up red ball 1"


def test_relabel_replaces_the_goal():
    text = "goal open the door ; see red ball 1 2 ahead ; wall 4 ahead"
    changed = FORM.relabel(text, "pick up the red ball")
    assert changed == "goal pick up the red ball ; see red ball 1 2 ahead ; wall 4 ahead"


def test_relabel_refuses_an_observation_without_a_goal():
    with pytest.raises(TaskError, match="holds no goal"):
        FORM.relabel("see nothing ; wall 4 ahead", "open the door")


def test_refusals_use_only_words_of_the_vocabulary(layout):
    seen, words = seen_in(layout(["#####", "#>..#", "#####"])), set(FORM.vocabulary())
    for why in Refusal:
        assert set(FORM.refused(seen, "fly", why).split()) <= words


def test_vocabulary_has_at_most_67_distinct_words():
    words = FORM.vocabulary()
    assert len(words) == len(set(words)) <= 67


def test_observations_of_all_levels_use_only_words_of_the_vocabulary():
    tasks = BabyAITasks(BabyAIOptions(levels=LEVELS))
    words, env, rng = set(tasks.vocabulary()), tasks.environment(), random.Random(0)
    for index in range(3 * len(LEVELS)):
        seen = env.reset(tasks.task("train", index))
        for _ in range(20):
            said = [seen.text, *seen.admissible]
            assert {word for text in said for word in text.split()} <= words
            step = env.step(rng.choice([*seen.admissible, "go to red ball 1", "drop", "toggle"]))
            seen = step.observation
            goals = " ".join(step.achieved).replace(",", "")
            assert set(goals.split()) <= words
            if step.terminated or step.truncated:
                break
