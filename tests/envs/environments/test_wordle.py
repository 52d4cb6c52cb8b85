"""Wordle, by LMRL-Gym's rules."""

from __future__ import annotations

from functools import partial

import pytest

from agentrl_envs import registry
from agentrl_envs.conformance.check import check
from agentrl_envs.environments.wordle import WordleOptions, WordleTasks
from agentrl_envs.environments.wordle.environment import feedback, word_list


@pytest.mark.parametrize("options", [{}, {"text": "terse", "words": 40}])
def test_the_contract_is_kept(options: dict[str, object]):
    factory = partial(registry.task_set, "wordle", options)
    report = check(factory(), tasks=8, factory=factory)
    assert report.passed, str(report)


@pytest.mark.parametrize(
    ("guess", "word", "expected"),
    [
        ("stone", "stone", "g g g g g"),
        ("panic", "felon", "b b y b b"),
        ("felon", "frown", "g b b y g"),
        ("geese", "eagle", "y y b b g"),  # two e's of the word: one in place, one elsewhere
        ("otter", "actor", "y b g b g"),  # the second t is right, so none is left for the first
    ],
)
def test_feedback_marks_each_letter(guess: str, word: str, expected: str):
    marks = feedback(guess, word)
    assert marks == expected


def play(*guesses: str, **options: object):
    tasks = WordleTasks(WordleOptions.model_validate(options))
    task, session = tasks.task("train", 0), tasks.environment()
    session.reset(task)
    word = task.payload["word"]
    others = [other for other in tasks.words if other != word]
    return [session.step(each.format(" ".join(word), *map(" ".join, others))) for each in guesses]


def test_the_hidden_word_is_worth_1_and_ends_the_game():
    wrong, right, late = play("{1}", "Thought: sure.\nAction: {0}", "{0}")
    assert (wrong.reward, wrong.raw_score, wrong.terminated) == (0.0, -1.0, False)
    assert (right.reward, right.raw_score, right.success) == (1.0, 0.0, True)
    assert right.observation.text == "g g g g g"
    assert (late.reward, late.wellformed) == (0.0, False)


def test_six_wrong_guesses_end_the_game():
    steps = play(*(f"{{{number}}}" for number in range(1, 7)))
    assert [step.terminated for step in steps] == [False] * 5 + [True]
    assert not steps[-1].success


def test_a_word_that_is_not_in_the_list_does_not_count():
    steps = play(*["q z x w v"] * 7, "{0}")
    assert {step.observation.text for step in steps[:7]} == {"invalid word"}
    assert steps[-1].success


def test_the_terse_form_lists_the_words_that_were_not_guessed():
    tasks = WordleTasks(WordleOptions(words=20, text="terse"))
    session = tasks.environment()
    first = session.reset(tasks.task("train", 0))
    assert len(first.admissible or ()) == 20
    guess = next(w for w in tasks.words if w != tasks.task("train", 0).payload["word"])
    assert len(session.step(guess).observation.admissible or ()) == 19


def test_words_have_five_letters_and_are_given_in_the_instructions():
    words = word_list()
    assert len(words) == len(set(words)) > 600
    assert all(len(word) == 5 and word.isascii() and word.isalpha() for word in words)
    assert " ".join(words) in WordleTasks().instructions()
