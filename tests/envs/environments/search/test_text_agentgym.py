"""AgentGym's form: tags in replies, and upstream's defects that are fixed unless compat asks."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl_envs import registry
from agentrl_envs.env import Step, split_exchange
from agentrl_envs.environments.search import SearchOptions, SearchTasks
from agentrl_envs.environments.search.text_agentgym import (
    INVALID,
    SEVERAL,
    blocks_of,
    without_thoughts,
)


def play(options: dict[str, Any], *replies: str) -> list[Step]:
    """Play the first held-out question of one hop; `{answer}` and `{ask}` are filled in."""
    tasks = SearchTasks(SearchOptions(hops=(1,), people=60, heldout=5, **options))
    task, session = tasks.task("heldout", 0), tasks.environment()
    session.reset(task)
    name, relation = task.payload["chain"]
    filled = {"answer": task.payload["answers"][0], "ask": f"{relation} of {name}"}
    return [session.step(reply.format(**filled)) for reply in replies]


def test_the_first_observation_is_the_question():
    tasks = SearchTasks(SearchOptions())
    task = tasks.task("heldout", 1)
    text = tasks.environment().reset(task).text
    first, then = task.payload["chain"][1:]
    assert text == f"Question: Who is the {then} of the {first} of {task.payload['chain'][0]}?"


def test_a_search_returns_numbered_documents():
    (step,) = play({}, "<think>Look it up.</think> <search>{ask}</search>")
    assert step.observation.text.startswith("<information>Doc 1(Title: ")
    assert step.observation.text.count("\nDoc ") == 2
    assert step.observation.text.endswith("</information>")
    assert (step.wellformed, step.terminated, step.reward) == (True, False, 0.0)


def test_a_search_that_finds_nothing_says_so():
    (step,) = play({}, "<search>zzzz</search>")
    assert step.observation.text == "<information>No document was found.</information>"


def test_a_correct_answer_ends_the_episode_with_reward_1():
    (step,) = play({}, "<answer> {answer}. </answer>")
    assert (step.reward, step.terminated, step.success) == (1.0, True, True)
    assert step.observation.text == "Congratulations! You have answered the question correctly."


def test_a_wrong_answer_ends_the_episode_where_upstream_lets_the_agent_guess_on():
    wrong, right = play({}, "<answer>Nobody</answer>", "<answer>{answer}</answer>")
    assert (wrong.reward, wrong.terminated, wrong.success) == (0.0, True, False)
    assert wrong.observation.text == "Sorry, your answer is incorrect."
    assert (right.reward, right.success) == (0.0, False)


def test_compat_has_upstreams_form_of_the_prompt():
    tasks = SearchTasks(SearchOptions(compat="agentgym"))
    assert split_exchange(tasks.instructions())[1] == "Ok."
    assert split_exchange(SearchTasks(SearchOptions()).instructions())[1] is None


def test_compat_finds_nothing_without_a_word():
    (step,) = play({"compat": "agentgym"}, "<search>zzzz</search>")
    assert step.observation.text == "<information></information>"


def test_compat_guesses_on_as_upstream():
    wrong, right = play(
        {"compat": "agentgym"}, "<answer>Nobody</answer>", "<answer>{answer}</answer>"
    )
    assert (wrong.reward, wrong.terminated) == (0.0, False)
    assert wrong.observation.text == "Sorry, your answer is incorrect. Please try again."
    assert (right.reward, right.terminated, right.success) == (1.0, True, True)


def test_a_reply_with_two_blocks_is_refused_where_upstream_scores_the_last_answer():
    """Upstream: the first block decides what is done, and the last <answer> is scored."""
    two = "<answer>Nobody</answer> or <answer>{answer}</answer>"
    (ours,), (upstreams,) = play({}, two), play({"compat": "agentgym"}, two)
    assert (ours.observation.text, ours.wellformed, ours.terminated) == (SEVERAL, False, False)
    assert (upstreams.reward, upstreams.terminated) == (1.0, True)


def test_tags_inside_a_thought_are_no_action():
    (step,) = play({}, "<think>maybe <answer>Nobody</answer></think>")
    assert (step.observation.text, step.wellformed) == (INVALID, False)


@pytest.mark.parametrize("reply", ["", "search: x", "<search></search>", "<search>x"])
def test_a_reply_without_a_block_gets_a_message(reply: str):
    (step,) = play({}, reply)
    assert (step.observation.text, step.wellformed, step.terminated) == (INVALID, False, False)


def test_f1_as_the_reward_gives_part_of_it_for_some_words():
    (step,) = play({"reward": "f1"}, "<answer>{answer} Smith</answer>")
    assert (step.reward, step.raw_score) == pytest.approx((2 / 3, 2 / 3))
    assert (step.success, step.terminated) == (False, True)


def test_the_raw_score_is_f1_under_exact_match():
    (step,) = play({}, "<answer>{answer} Smith</answer>")
    assert (step.reward, step.raw_score) == (0.0, pytest.approx(2 / 3))


def test_turns_are_limited():
    *_, last, late = play({"turn_limit": 2}, "x", "x", "<answer>{answer}</answer>")
    assert (last.truncated, last.terminated) == (True, False)
    assert (late.reward, late.truncated, late.success) == (0.0, True, False)


def test_an_option_that_is_none_is_named():
    assert registry.option_errors("search", {"topk": 3}) == [
        "topk: search has no such option; see `agentrl envs list search`"
    ]


PARTS = (
    "<think>",
    "</think>",
    "<search>",
    "</search>",
    "<answer>",
    "</answer>",
    "a",
    "<",
    ">",
    "\n",
)


@given(st.lists(st.sampled_from(PARTS), max_size=14).map("".join))
def test_blocks_and_thoughts_are_those_of_the_patterns_that_define_them(reply):
    blocks = re.compile(r"<(search|answer)>(.*?)</\1>", re.DOTALL)
    thought = re.compile(r"<think>.*?</think>", re.DOTALL)
    assert blocks_of(reply) == blocks.findall(reply)
    assert without_thoughts(reply) == thought.sub("", reply)


class CountedText(str):
    """Counts the characters that `find` looks at."""

    looked_at = 0

    def find(self, part: str, start: int = 0) -> int:
        found = super().find(part, start)
        self.looked_at += (len(self) if found < 0 else found) - start
        return found


@pytest.mark.parametrize("tag", ["<think>", "<search>", "<answer>"])
def test_tags_that_are_not_closed_are_looked_at_a_bounded_number_of_times(tag):
    reply = CountedText(tag * 1000)
    assert blocks_of(reply) == []
    assert without_thoughts(reply) == reply
    assert reply.looked_at <= 3 * len(reply)
