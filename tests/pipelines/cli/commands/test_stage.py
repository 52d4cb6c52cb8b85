"""`agentrl stage`, as a pod calls it."""

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


def test_the_first_line_of_a_stages_log_says_which_attempt_at_which_phase_it_is(tmp_path):
    (tmp_path / "run.yaml").write_text(MANIFEST)
    told = ["settle", "--manifest", f"@{tmp_path / 'run.yaml'}", "--phase", "0"]
    scratch = ["--scratch", str(tmp_path)]
    first = CliRunner().invoke(stage, [*told, *scratch])
    third = CliRunner().invoke(stage, [*told, "--attempt", "2", *scratch])
    assert (first.exit_code, third.exit_code) == (0, 0)
    assert first.stdout.splitlines()[0] == "    0:00  · phase 1, attempt 1"
    assert third.stdout.splitlines()[0] == "    0:00  · phase 1, attempt 3"
