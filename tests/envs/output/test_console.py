import io

from rich.progress import Progress
from rich.table import Table

from agentrl_envs.output.console import Console


def terminal() -> Console:
    return Console(
        file=io.StringIO(),
        force_terminal=True,
        color_system="standard",
        width=60,
        highlight=False,
        _environ={"TERM": "xterm"},
    )


def test_escape_sequences_of_texts_are_replaced_and_styles_remain():
    console = terminal()
    console.print("\x1b]52;c;ZXZpbA==\x07door", style="green")
    assert console.file.getvalue() == "\x1b[32m�]52;c;ZXZpbA==door\x1b[0m\n"


def test_the_cells_of_a_table_are_cleaned():
    console = terminal()
    table = Table.grid()
    table.add_row("\x1b[2Jfar", "2")
    console.print(table)
    assert "�[2J" in console.file.getvalue()
    assert "\x1b" not in console.file.getvalue()


def test_a_live_display_still_moves_the_cursor():
    console = terminal()
    with Progress(console=console, auto_refresh=False, transient=True) as progress:
        progress.add_task("\x1b]0;title\x07", total=2)
        progress.refresh()
    assert "\x1b[2K" in console.file.getvalue()  # erases the line
    assert "\x1b]0;" not in console.file.getvalue()
