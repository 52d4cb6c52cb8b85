"""The references of commands, docs/commands.md, and of `status`, docs/status.md."""

from __future__ import annotations

import re

import command_reference
import pytest
import status_reference
from click.testing import CliRunner
from repository import PACKAGES, ROOT

from agentrl_operator.api.conditions import Kind, Reason
from agentrl_pipelines.cli.main import main
from agentrl_pipelines.stages.runner import PERMANENT

COMMANDS = (ROOT / "docs/commands.md").read_text(encoding="utf-8")


def test_the_page_of_commands_is_the_one_that_the_script_writes():
    assert command_reference.page() == COMMANDS


def test_every_command_of_the_help_has_a_section():
    for group in ([], ["envs"]):
        listed = CliRunner().invoke(main, [*group, "--help"]).output.partition("Commands:")[2]
        names = re.findall(r"^  ([a-z]+) ", listed, re.MULTILINE)
        assert len(names) > 5
        for name in names:
            assert f" `{' '.join(['agentrl', *group, name])}`\n" in COMMANDS


def test_a_row_has_the_values_the_default_and_the_meaning_of_an_option():
    assert (
        "| `--turn-seconds` | number from 0 to 86400 | `0.02` "
        "| Latency of an environment's step, in seconds. |\n"
    ) in COMMANDS
    assert "| **`--root`** | path |  | Folder of the run. |\n" in COMMANDS
    assert r"| `--checkpoint` | `N\|best\|last` | best | With `--root`: the" in COMMANDS
    assert "| `-o`, `--output` | `table`, `json` | `table` | Format of the plan. |\n" in COMMANDS


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


STATUS = (ROOT / "docs/status.md").read_text(encoding="utf-8")


def test_the_page_of_status_is_the_one_that_the_script_writes():
    assert status_reference.page() == STATUS


def test_the_page_of_status_describes_each_field_column_type_and_reason():
    assert (
        "| `retryTime` | time (RFC 3339, UTC) "
        "| Time of the next attempt after a failed one, until that begins. |\n"
    ) in STATUS
    assert "| KFP RUN | `status.kfpRun` | with `-o wide` |\n" in STATUS
    assert "| `Suspended` | all work has stopped, as `spec.suspend` says | the run is" in STATUS
    assert "| **`Unschedulable`** | `Progressing` | A pod fits on no node." in STATUS
    assert set(status_reference.KINDS) == set(Kind)
    assert set(status_reference.MEANINGS) == set(Reason)


def test_the_conditions_of_a_reason_are_types_of_conditions():
    named = {
        one for where, _ in status_reference.MEANINGS.values() for one in where.split(", ") if one
    }
    assert named == {kind.value for kind in Kind}


def test_each_reason_is_one_that_the_operator_sets():
    """Regression: WorkflowLost, EngineError, DriftError and StoreError were in the code and in a
    document, and in no condition."""
    sources = (path.read_text("utf-8") for path in PACKAGES["agentrl_operator"].rglob("*.py"))
    named = {name for text in sources for name in re.findall(r"\bReason\.([A-Z_]+)", text)}
    of_stages = {kind.__name__ for kind in PERMANENT}
    assert [one for one in Reason if one.name not in named and one.value not in of_stages] == []
