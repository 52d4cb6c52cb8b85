import pytest
from text_episode import episode

from agentrl_components.reporting.transcript import fold, lines, replay
from agentrl_components.trajectory.record import Ending


def test_an_episode_is_rendered_turn_by_turn_with_its_outcome():
    solved = episode(
        ("you see a key", "pick up key", 0.0, True),
        ("you carry a key", "open door", 1.0, True),
        success=True,
        ending=Ending.TERMINATED,
    )
    assert list(lines(replay(solved))) == [
        "  1  you see a key",
        "  →  pick up key",
        "  2  you carry a key",
        "  →  open door   (reward +1)",
        "  =  solved in 2 turns",
    ]


def test_a_reply_without_a_valid_action_is_marked():
    shown = list(lines(replay(episode(("a door", "hm", 0.0, False)))))
    assert shown[1] == "  →  hm   (no valid action)"


@pytest.mark.parametrize(
    ("ending", "turns", "note", "outcome"),
    [
        (Ending.TERMINATED, 1, "", "failed after 1 turn: the environment ended the episode"),
        (Ending.TRUNCATED, 2, "", "not solved in 2 turns, the turn limit"),
        (Ending.TRUNCATED, 1, "no tokens left", "not solved in 1 turn, no tokens left"),
        (Ending.LOST, 1, "", "lost after 1 turn: the environment failed, not the agent"),
    ],
)
def test_every_ending_has_its_own_outcome(ending, turns, note, outcome):
    trajectory = episode(*[("o", "a", 0.0, True)] * turns, ending=ending, note=note)
    assert replay(trajectory).outcome == outcome


def test_no_line_exceeds_the_width_and_the_indent_is_kept():
    shown = list(lines(replay(episode(("one two three four five six", "go", 0.0, True))), width=20))
    assert shown[:2] == ["  1  one two three", "     four five six"]
    assert max(map(len, shown)) <= 20


def test_line_breaks_of_an_observation_are_kept():
    shown = list(lines(replay(episode(("inventory:\nlog 2\n", "go", 0.0, True)))))
    assert shown[:3] == ["  1  inventory:", "     log 2", "  →  go"]


def test_fold_keeps_both_ends_of_a_long_text():
    assert fold("a" * 100 + "b" * 100, 30) == "a" * 20 + " … (170 characters) … " + "b" * 10
    assert fold("short", 30) == "short"
