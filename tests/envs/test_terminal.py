import io
from collections.abc import Iterator

from rich.console import Console

from agentrl_envs.env import Task, content_id
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.terminal import Ask, play


class OneTask(CorridorTasks):
    def task(self, split, index) -> Task:
        payload = {"cells": 5, "start": 2, "side": "left", "colour": "red"}
        return Task(id=content_id("corridor", payload), category="walk-2", payload=payload)


def typed(*lines: str) -> Ask:
    rest: Iterator[str] = iter(lines)

    def ask() -> str:
        try:
            return next(rest)
        except StopIteration:
            raise EOFError from None

    return ask


def played(*lines: str) -> str:
    screen = io.StringIO()
    console = Console(file=screen, width=100, highlight=False)
    play(OneTask(), split="train", index=0, console=console, ask=typed(*lines))
    return screen.getvalue()


def test_actions_are_taken_by_text_and_by_number():
    shown = played("left", "1", "push")
    assert "corridor 5 red door left 2" in shown
    assert "   1  left" in shown
    assert "door opens" in shown
    assert "solved after 3 turns, score 1" in shown


def test_a_wrong_verb_ends_the_game():
    assert "ended after 3 turns, score 0" in played("left", "left", "2")


def test_a_reply_that_is_no_action_is_told_so():
    assert "not an action here . say one of left right" in played("[bold]fly", "q")


def test_q_and_the_end_of_input_leave():
    assert "You quit." in played("left", "q")
    assert "You quit." in played("left")


def test_the_prompt_says_what_to_type():
    assert "Type an action or its number, help, or quit." in played("quit")


def test_help_an_empty_line_and_an_unlisted_number_cost_no_turn():
    """They were passed to the environment as actions."""
    shown = played("help", "", "9", "0", "99999999999999", "left", "?", "left", "push")
    assert "There is no action 9; type 1 to 2." in shown
    assert shown.count("walk left or right to the door then push or pull it") == 3
    assert "not an action here" not in shown
    assert "solved after 3 turns, score 1" in shown


def test_every_word_for_quitting_quits():
    for word in ("q", "quit", "EXIT"):
        assert "You quit." in played("left", word)
