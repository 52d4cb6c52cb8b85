import os
import signal
import socket
import subprocess
import sys

import httpx
import pytest
from click.testing import CliRunner, Result

from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.registry import BUILT_IN
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.run import running
from agentrl_pipelines.cli.env_commands.group import envs

START = "from agentrl_pipelines.cli.main import main; main()"


def invoke(*arguments: str, typed: str = "") -> Result:
    return CliRunner().invoke(envs, arguments, input=typed)


def test_list_prints_every_environment():
    result = invoke("list")
    assert result.exit_code == 0
    named = [line.split()[0] for line in result.output.splitlines() if line[0] != " "]
    assert [name for name in named if ":" not in name][: len(BUILT_IN)] == list(BUILT_IN)


def test_list_with_a_name_prints_the_options():
    assert "turns" in invoke("list", "corridor").output


@pytest.mark.parametrize(
    "wrong",
    [
        ("serve", "corridor", "--port", "99999"),
        ("serve", "corridor", "--threads", "0"),
        ("serve", "corridor", "--workers", "-1"),
        ("check", "corridor", "--tasks", "0"),
        ("play", "corridor", "--index", "-1"),
    ],
)
def test_a_number_out_of_range_is_refused_and_the_option_is_named(wrong):
    result = invoke(*wrong)
    assert result.exit_code == 2
    assert f"Invalid value for '{wrong[2]}'" in result.output


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["check", "corridor", "--protocol", "agentgym"], "--protocol: has no effect without"),
        (["play", "corridor", "--protocol", "openenv"], "--protocol: has no effect without"),
        (["check", "corridor", "--token-env", "MINE"], "--token-env: has no effect without"),
        (
            ["check", "corridor", "--url", "http://127.0.0.1:9", "-o", "turns=8"],
            "--options: have no effect with --url and --protocol agentrl; give them to the server",
        ),
        (["play", "corridor", "--checkpoint", "3"], "--checkpoint: has no effect without --agent"),
        (["play", "corridor", "--watch"], "--watch: has no effect without --agent"),
        (["serve", "corridor", "--family", "babyai"], "--family: has no effect without --protocol"),
    ],
)
def test_an_option_without_effect_is_refused(arguments, line):
    result = invoke(*arguments, typed="q\n")
    assert result.exit_code == 2
    assert f"Error: {line}" in result.output


def test_check_passes_the_corridor():
    result = invoke("check", "corridor", "--tasks", "5", "-o", "turns=8")
    assert result.exit_code == 0
    assert "0 of 21 rules broken" in result.output


def test_check_with_a_url_checks_the_server():
    tasks = CorridorTasks()
    with running(create_app(tasks, ThreadExecutor(tasks), ServerOptions())) as url:
        result = invoke("check", "corridor", "--tasks", "2", "--url", url)
        assert (result.exit_code, "0 of 20 rules broken" in result.output) == (0, True)
        wrong = invoke("check", "babyai", "--url", url)
        assert (wrong.exit_code, "serves corridor, not babyai" in wrong.output) == (2, True)


def test_check_exits_with_1_if_a_rule_is_broken():
    class NoWords(CorridorTasks):
        def vocabulary(self):
            return ()

    tasks = NoWords()
    with running(create_app(tasks, ThreadExecutor(tasks), ServerOptions())) as url:
        result = invoke("check", "corridor", "--tasks", "2", "--url", url)
    assert result.exit_code == 1
    assert "BROKEN  vocabulary" in result.output


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["check", "labyrinth"], "'labyrinth' is not built in"),
        (["check", "corridor", "-o", "turns=many"], "corridor.options.turns"),
        (["check", "corridor", "-o", "turns"], "'turns' is not of the form KEY=VALUE"),
        (["serve", "corridor", "--host", "0.0.0.0"], "no token is set"),
        (["serve", "corridor", "--capacity", "0"], "--capacity"),
        (["list", "labyrinth"], "'labyrinth' is not built in"),
    ],
)
def test_a_wrong_argument_is_reported_with_exit_code_2(arguments, expected):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert expected in result.output


def test_play_works_with_piped_input():
    result = invoke("play", "corridor", typed="left\nq\n")
    assert result.exit_code == 0
    assert "You quit." in result.output


def test_the_envs_group_does_not_import_the_server():
    code = (
        "import sys; import agentrl_pipelines.cli.env_commands.group;"
        "sys.exit(bool({'starlette', 'pydantic', 'httpx', 'uvicorn'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=300).returncode == 0


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_server_starts_serves_and_exits_cleanly_when_it_is_stopped(workers, stop, code):
    arguments = ["envs", "serve", "corridor", "--port", "0", "--workers", workers]
    server = subprocess.Popen(
        [sys.executable, "-c", START, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "AGENTRL_ENVS_TOKEN": "sesame"},
    )
    try:
        assert server.stderr
        url = server.stderr.readline().split()[2].rstrip(",")
        task = CorridorTasks().task("train", 0)
        body = {"id": task.id, "category": task.category, "payload": dict(task.payload)}
        answer = httpx.post(
            f"{url}/v1/sessions",
            json={"task": body, "key": "k"},
            headers={"authorization": "Bearer sesame"},
            timeout=300,
        )
        assert answer.status_code == 201
        server.send_signal(stop)
        _, errors = server.communicate(timeout=300)
        assert server.returncode == code
        assert "Traceback" not in errors
    finally:
        server.kill()
        server.wait()
        server.stderr.close()


def test_sites_refuses_a_port_that_is_in_use():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = invoke("sites", "--port", str(port))
    assert result.exit_code == 2
    assert f"--port: cannot listen on {port}" in result.output


@pytest.mark.parametrize("command", ["check", "play", "serve"])
@pytest.mark.parametrize(("name", "missing"), [("sciworld", "Java 17"), ("web", "Chromium")])
def test_a_missing_program_is_refused_before_there_is_a_session(
    command, name, missing, monkeypatch, tmp_path
):
    monkeypatch.setenv("PATH", str(tmp_path))
    result = invoke(command, name)
    assert result.exit_code == 2
    assert f"Error: {name}: {missing} is not installed; apt-get install" in result.output


@pytest.mark.parametrize("command", ["check", "play"])
def test_a_program_that_does_not_start_is_refused_before_there_is_a_session(
    command, monkeypatch, tmp_path
):
    """Regression: the check reported lost sessions, rule by rule."""
    pytest.importorskip("playwright", reason="pip install '.[web]'")
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    result = invoke(command, "web", "-o", "seed=4")
    assert result.exit_code == 2
    assert f"Error: browser: {program} does not start" in result.output
