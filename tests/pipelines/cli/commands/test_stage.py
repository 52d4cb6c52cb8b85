"""`agentrl stage` as a pod runs it."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from agentrl_pipelines.cli.commands.stage import stage

MANIFEST = """
apiVersion: agentrl.dev/v1alpha1
kind: AgentRLRun
metadata: {name: walk}
spec:
  environments: [{name: corridor, builtin: corridor}]
  horizon: {phases: [{maxTurns: 2, iterations: 5}]}
"""


LOGS_OF_LIBRARIES = """
import logging, sys
from agentrl_pipelines.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
logging.getLogger("matplotlib.font_manager").warning("Matplotlib is building the font cache")
logging.getLogger("httpx").info("HTTP Request: GET http://rooms/healthz")
logging.getLogger("agentrl_components.rollout.environments").info("rooms answers")
"""


def test_the_log_of_a_stage_has_its_own_lines_and_not_those_of_libraries(tmp_path):
    (tmp_path / "run.yaml").write_text(MANIFEST)
    arguments = ["stage", "settle", "--manifest", f"@{tmp_path / 'run.yaml'}", "--phase", "0"]
    command = [sys.executable, "-c", LOGS_OF_LIBRARIES, *arguments, "--scratch", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stderr == "INFO agentrl_components.rollout.environments: rooms answers\n"


def test_the_first_line_of_a_stages_log_names_phase_and_attempt(tmp_path):
    (tmp_path / "run.yaml").write_text(MANIFEST)
    arguments = ["settle", "--manifest", f"@{tmp_path / 'run.yaml'}", "--phase", "0"]
    scratch = ["--scratch", str(tmp_path)]
    first = CliRunner().invoke(stage, [*arguments, *scratch])
    third = CliRunner().invoke(stage, [*arguments, "--attempt", "2", *scratch])
    assert (first.exit_code, third.exit_code) == (0, 0)
    assert first.stdout.splitlines()[0] == "    0:00  · phase 1, attempt 1"
    assert third.stdout.splitlines()[0] == "    0:00  · phase 1, attempt 3"


def test_a_manifest_that_is_not_there_is_reported(tmp_path):
    arguments = ["settle", "--manifest", f"@{tmp_path / 'run.yaml'}", "--phase", "0"]
    done = CliRunner().invoke(stage, arguments)
    assert done.exit_code == 2
    assert done.stderr == f"{tmp_path / 'run.yaml'}: file not found; check the path\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "line 1, column 2: "),
        ("foo", "contains a string; write a mapping"),
        ("[]", "contains a list; write a mapping"),
        ("", "contains nothing; write a mapping"),
    ],
)
def test_a_manifest_that_is_no_mapping_is_one_line(tmp_path, text, expected):
    done = CliRunner().invoke(stage, ["settle", "--manifest", text, "--phase", "0"])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"--manifest: {expected}")
    (tmp_path / "run.yaml").write_text(text)
    arguments = ["settle", "--manifest", f"@{tmp_path / 'run.yaml'}", "--phase", "0"]
    done = CliRunner().invoke(stage, arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"{tmp_path / 'run.yaml'}: {expected}")
