import io

from rich.console import Console
from text_episode import episode

from agentrl_components.rollout.text_rollout import Usage
from agentrl_pipelines.cli.evaluation_view import LiveTable, PlainLines, evaluation_view_for


def test_the_live_table_has_a_row_for_each_category_and_the_tokens():
    now = [0.0]
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    view = LiveTable(console, clock=lambda: now[0])
    view.stage("evaluate", 4)
    turn = ("seen", "did", 0.0, True)
    solved = episode(turn, turn, success=True)
    view.episode(solved, Usage(prompt_tokens=1200, completion_tokens=30), False)
    view.episode(episode(turn), Usage(prompt_tokens=300, completion_tokens=5), False)
    now[0] = 2.0  # for half of the episodes
    view.close()  # prints the table for the last time
    shown = console.file.getvalue()
    assert "babyai/UnlockPickup" in shown
    assert "50.0" in shown
    assert "1.5" in shown
    assert "2 of 4 episodes · 1,500 + 35 tokens" in shown
    assert "0:02 left" in shown


def test_a_second_stage_has_counts_of_its_own_and_all_tokens():
    view = LiveTable(Console(file=io.StringIO(), width=100, force_terminal=False))
    for name in ("first", "second"):
        view.stage(name, 2)
        view.episode(episode(), Usage(prompt_tokens=300, completion_tokens=5), False)
    view.close()
    assert view.rows["babyai/UnlockPickup"].episodes == 1
    assert "1 of 2 episodes · 600 + 10 tokens" in view.table().caption.plain


def test_the_time_left_is_estimated_from_the_episodes_of_this_process():
    """300 of 400 episodes are found in the folder; then 3 more take a minute, so 97 take 97 / 3
    minutes."""
    now = [0.0]
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    view = LiveTable(console, clock=lambda: now[0])
    view.stage("evaluate", 400)
    for _ in range(300):
        view.episode(episode(), Usage(), True)
    now[0] = 10.0
    assert "left" not in view.table().caption.plain
    for _ in range(3):
        view.episode(episode(), Usage(), False)
    now[0] = 60.0
    assert "303 of 400 episodes" in view.table().caption.plain
    assert view.table().caption.plain.endswith("1:00 · about 32:20 left")
    view.stage("evaluate again", 400)  # none of it is found
    view.episode(episode(), Usage(), False)
    now[0] = 61.0
    assert view.table().caption.plain.endswith(
        "1 of 400 episodes · 0 + 0 tokens · 0:01 · about 6:39 left"
    )
    view.close()


def test_a_log_file_gets_plain_lines():
    view = evaluation_view_for(Console(file=io.StringIO()))
    assert isinstance(view, PlainLines)
    view.episode(episode(), Usage(), False)
