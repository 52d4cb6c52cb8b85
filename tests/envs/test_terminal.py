import io
from collections.abc import Iterator

from agentrl_envs.env import Observation, Task, content_id
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.output.console import Console
from agentrl_envs.terminal import Ask, Partner, play


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


def screen_of(
    *lines: str,
    partner: Partner | None = None,
    watch: bool = False,
    max_turns: int | None = None,
) -> str:
    screen = io.StringIO()
    play(
        OneTask(),
        split="train",
        index=0,
        console=Console(file=screen, width=100, highlight=False),
        ask=scripted_input(*lines),
        partner=partner,
        watch=watch,
        max_turns=max_turns,
    )
    return screen.getvalue()


class ScriptedPartner:
    """Proposes the given actions and records what it is told."""

    def __init__(self, *proposals: str | None) -> None:
        self._proposals = iter(proposals)
        self.told: list[str] = []

    def begin(self, instructions: str, observation: Observation) -> None:
        self.told.append(observation.text)

    def propose(self, observation: Observation) -> str | None:
        return next(self._proposals)

    def played(self, action: str, observation: Observation) -> None:
        self.told += [action, observation.text]


def test_actions_are_entered_by_text_or_number():
    shown = screen_of("left", "1", "push")
    assert "corridor 5 red door left 2" in shown
    assert "   1  left" in shown
    assert "door opens" in shown
    assert "solved after 3 turns, score 1" in shown


class HostileTask(OneTask):
    """Its texts clear the screen, set the title and fill the clipboard."""

    def task(self, split, index) -> Task:
        honest = super().task(split, index)
        return Task(id=honest.id, category=ESCAPES, payload=honest.payload)

    def instructions(self) -> str:
        return f"walk {ESCAPES}"


ESCAPES = "\x1b[2J\x1b]0;title\x07\x9b31m\x1b]52;c;ZXZpbA==\x1b\\"


def test_no_escape_sequence_of_an_environment_or_an_agent_reaches_the_terminal():
    """Regression: the texts of observations and replies were printed as they were."""
    screen = io.StringIO()
    play(
        HostileTask(),
        split="train",
        index=0,
        console=Console(file=screen, width=100, highlight=False, soft_wrap=True),
        ask=scripted_input(),
        partner=ScriptedPartner(f"fly {ESCAPES}"),
        watch=True,
        max_turns=1,
    )
    shown = screen.getvalue()
    assert {char for char in shown if not char.isprintable()} <= {"\n"}
    assert "walk �[2J�]0;title�31m�]52;c;ZXZpbA==�\\" in shown
    assert "agent: fly �[2J" in shown


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


def test_an_empty_line_plays_the_agents_action():
    shown = screen_of("", "", "", partner=ScriptedPartner("left", "left", "push"))
    assert "Press Enter to play the agent's action" in shown
    assert "agent: push" in shown
    assert "solved after 3 turns, score 1" in shown


def test_a_person_plays_another_action_and_the_agent_is_told():
    partner = ScriptedPartner("right", "left", "pull")
    shown = screen_of("left", "", "push", partner=partner)
    assert "solved after 3 turns" in shown
    assert partner.told == [
        "corridor 5 red door left 2",
        *("left", "corridor 5 red door left 1"),
        *("left", "corridor 5 red door here"),
        *("push", "door opens"),
    ]


def test_auto_lets_the_agent_play_on_alone():
    shown = screen_of("auto", partner=ScriptedPartner("left", "left", "push"))
    assert "solved after 3 turns" in shown
    assert shown.count("   1  left") == 1  # listed while the person was asked


def test_watching_asks_nothing():
    shown = screen_of(partner=ScriptedPartner("left", "left", "pull"), watch=True)
    assert "ended after 3 turns, score 0" in shown
    assert "Press Enter" not in shown


def test_an_agent_with_a_full_context_hands_over():
    shown = screen_of("auto", "left", "push", partner=ScriptedPartner("left", None, None))
    assert "The agent's context is full; the rest is yours." in shown
    assert "solved after 3 turns" in shown


def test_an_agent_that_is_watched_ends_the_episode_where_its_context_is_full():
    shown = screen_of("push", "push", partner=ScriptedPartner("left", None), watch=True)
    assert "The agent's context is full.\n" in shown
    assert "cut off after 1 turns, score 0" in shown
    assert "quit" not in shown.lower()


def test_the_episode_is_cut_off_after_the_given_turns():
    shown = screen_of(partner=ScriptedPartner("left", "left"), watch=True, max_turns=2)
    assert "cut off after 2 turns" in shown
