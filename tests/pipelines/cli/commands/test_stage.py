"""`agentrl stage` as a pod runs it."""

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


def test_the_first_line_of_a_stages_log_names_phase_and_attempt(tmp_path):
    (tmp_path / "run.yaml").write_text(MANIFEST)
    arguments = ["settle", "--manifest", f"@{tmp_path / 'run.yaml'}", "--phase", "0"]
    scratch = ["--scratch", str(tmp_path)]
    first = CliRunner().invoke(stage, [*arguments, *scratch])
    third = CliRunner().invoke(stage, [*arguments, "--attempt", "2", *scratch])
    assert (first.exit_code, third.exit_code) == (0, 0)
    assert first.stdout.splitlines()[0] == "    0:00  · phase 1, attempt 1"
    assert third.stdout.splitlines()[0] == "    0:00  · phase 1, attempt 3"
