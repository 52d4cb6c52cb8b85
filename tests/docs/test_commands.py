"""docs/commands.md has the usage, the options and the exit codes of the commands."""

from __future__ import annotations

import re

import command_reference
import pytest
from click.testing import CliRunner
from repository import ROOT

from agentrl_pipelines.cli.main import main

PAGE = (ROOT / "docs/commands.md").read_text(encoding="utf-8")


def test_the_page_is_the_one_that_the_script_writes():
    assert command_reference.page() == PAGE


def test_every_command_of_the_help_has_a_section():
    for group in ([], ["envs"]):
        listed = CliRunner().invoke(main, [*group, "--help"]).output.partition("Commands:")[2]
        names = re.findall(r"^  ([a-z]+) ", listed, re.MULTILINE)
        assert len(names) > 5
        for name in names:
            assert f" `{' '.join(['agentrl', *group, name])}`\n" in PAGE


def test_a_row_has_the_values_the_default_and_the_meaning_of_an_option():
    assert (
        "| `--turn-seconds` | number from 0 to 86400 | `0.02` "
        "| Latency of an environment's step, in seconds. |\n"
    ) in PAGE
    assert "| **`--root`** | path |  | Folder of the run. |\n" in PAGE
    assert r"| `--checkpoint` | `N\|best\|last` | best | With `--root`: the checkpoint. |" in PAGE
    assert "| `-o`, `--output` | `table`, `json` | `table` | Format of the plan. |\n" in PAGE


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["validate", str(ROOT / "examples/babyai.yaml")], 0),
        (["validate", str(ROOT / "examples/babyai.yaml"), "--set", "seed=x"], 2),
        (["metrics", "--root", str(ROOT / "absent")], 2),
        (["envs", "list", "absent"], 2),
        (["envs", "play", "corridor", "--url", "http://127.0.0.1:9"], 2),
        (["stage", "absent", "--manifest", "{}", "--phase", "0"], 2),
        (["plan", str(ROOT / "examples/paper/web-7b.yaml"), "--device", "a10g"], 2),
    ],
    ids=lambda given: " ".join(given[:2]) if isinstance(given, list) else str(given),
)
def test_commands_end_with_the_codes_of_the_table(arguments: list[str], code: int):
    assert CliRunner().invoke(main, arguments).exit_code == code
