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


def test_the_text_names_things_wall_and_load(layout):
    rows = ["########", "#......#", "#>....b#", "#..d####", "########"]
    game = layout(rows, carrying="purple key", b="red ball", d="locked purple door")
    assert FORM.later(seen_in(game), "") == (
        "see locked purple door 1 2 ahead 1 right ; red ball 1 5 ahead ; wall 6 ahead ; "
        "carry purple key"
    )


def test_an_empty_sight_is_said_so(layout):
    rows = ["###########", "#>........#", "###########"]
    assert FORM.later(seen_in(layout(rows)), "") == "see nothing"


def test_the_first_text_begins_with_the_goal(layout):
    seen = seen_in(layout(["#####", "#>..#", "#####"]))
    text = FORM.first("pick up a red object", seen)
    assert text == "goal pick up a red object ; see nothing ; wall 3 ahead"


def test_an_ending_and_a_refusal_come_first(layout):
    seen = seen_in(layout(["#####", "#>..#", "#####"]))
    assert FORM.later(seen, "done") == "done ; see nothing ; wall 3 ahead"
    assert FORM.refused(seen, "", Refusal.UNKNOWN) == "unknown ; see nothing ; wall 3 ahead"
    assert FORM.refused(seen, "", Refusal.FULL) == "no carry ; see nothing ; wall 3 ahead"


def test_white_space_and_the_one_word_spelling_do_not_matter():
    assert FORM.parse(" go  to\nred ball 1 ") == "go to red ball 1"
    assert FORM.parse("pickup red ball 1") == "pick up red ball 1"


def test_another_goal_takes_the_place_of_the_first():
    text = "goal open the door ; see red ball 1 2 ahead ; wall 4 ahead"
    changed = FORM.relabel(text, "pick up the red ball")
    assert changed == "goal pick up the red ball ; see red ball 1 2 ahead ; wall 4 ahead"


def test_a_later_observation_holds_no_goal_to_replace():
    with pytest.raises(TaskError, match="holds no goal"):
        FORM.relabel("see nothing ; wall 4 ahead", "open the door")


def test_every_reason_has_words_of_the_vocabulary(layout):
    seen, words = seen_in(layout(["#####", "#>..#", "#####"])), set(FORM.vocabulary())
    for why in Refusal:
        assert set(FORM.refused(seen, "fly", why).split()) <= words


def test_the_vocabulary_is_small_and_without_repeats():
    words = FORM.vocabulary()
    assert len(words) == len(set(words)) <= 67


def test_random_play_in_every_level_stays_inside_the_vocabulary():
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
