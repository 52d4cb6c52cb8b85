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


def scripted_input(*lines: str) -> Ask:
    rest: Iterator[str] = iter(lines)

    def ask() -> str:
        try:
            return next(rest)
        except StopIteration:
            raise EOFError from None

    return ask


def screen_of(*lines: str) -> str:
    screen = io.StringIO()
    console = Console(file=screen, width=100, highlight=False)
    play(OneTask(), split="train", index=0, console=console, ask=scripted_input(*lines))
    return screen.getvalue()


def test_actions_are_entered_by_text_or_number():
    shown = screen_of("left", "1", "push")
    assert "corridor 5 red door left 2" in shown
    assert "   1  left" in shown
    assert "door opens" in shown
    assert "solved after 3 turns, score 1" in shown


def test_wrong_verb_ends_the_episode():
    assert "ended after 3 turns, score 0" in screen_of("left", "left", "2")


def test_invalid_action_is_reported():
    assert "not an action here . say one of left right" in screen_of("[bold]fly", "q")


def test_q_and_end_of_input_quit():
    assert "You quit." in screen_of("left", "q")
    assert "You quit." in screen_of("left")


def test_prompt_explains_the_input():
    assert "Type an action or its number, help, or quit." in screen_of("quit")


def test_help_empty_lines_and_unlisted_numbers_use_no_turn():
    """Regression: these inputs were passed to the environment as actions."""
    shown = screen_of("help", "", "9", "0", "99999999999999", "left", "?", "left", "push")
    assert "There is no action 9; type 1 to 2." in shown
    assert shown.count("walk left or right to the door then push or pull it") == 3
    assert "not an action here" not in shown
    assert "solved after 3 turns, score 1" in shown


def test_all_quit_words_quit():
    for word in ("q", "quit", "EXIT"):
        assert "You quit." in screen_of("left", word)
