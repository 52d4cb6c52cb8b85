"""A server that is asked to stop lets its live sessions end first."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import httpx
import pytest
from corridor_http import FakeClock, error_of, opened, stepped
from started import started

from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.draining import Draining
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.run import running


@contextmanager
def served_with_draining(**options):
    tasks = CorridorTasks()
    app = create_app(tasks, ThreadExecutor(tasks), ServerOptions(drain_s=300, **options))
    with running(app) as url, httpx.Client(base_url=url, timeout=300) as http:
        yield http, app.state.draining


def test_server_that_drains_is_not_ready_and_refuses_new_sessions():
    with served_with_draining() as (http, draining):
        draining.begin()
        assert http.get("/readyz").status_code == 503
        assert http.get("/healthz").status_code == 200
        assert error_of(opened(http, "a")) == (503, "draining")
        assert error_of(http.get("/v1/environment")) == (503, "draining")


def test_live_session_goes_on_until_its_episode_ends():
    with served_with_draining() as (http, draining):
        session = opened(http, "a").json()["id"]
        draining.begin()
        assert opened(http, "a").json()["id"] == session  # the repeat of an answered open
        assert stepped(http, session, 1, "left").status_code == 200
        assert not draining.over
        assert stepped(http, session, 2, "left").json()["step"]["terminated"] is False
        assert stepped(http, session, 3, "push").json()["step"]["terminated"] is True
        assert draining.over


def test_finished_session_is_closed_though_its_successor_is_refused():
    with served_with_draining(capacity=1) as (http, draining):
        session = opened(http, "a").json()["id"]
        draining.begin()
        assert error_of(opened(http, "b", replaces=session)) == (503, "draining")
        assert draining.over


def test_draining_ends_when_its_time_is_up():
    clock = FakeClock()
    draining = Draining(lambda: 1, limit_s=60, clock=clock)
    assert not draining.over
    draining.begin()
    clock.now = 59.0
    draining.begin()  # a second time changes nothing
    assert not draining.over
    clock.now = 60.0
    assert draining.over


def test_metrics_show_the_share_of_open_sessions():
    with served_with_draining(capacity=4) as (http, _):
        opened(http, "a")
        assert (
            'agentrl_env_sessions_share{environment="corridor"} 0.25' in http.get("/metrics").text
        )


@pytest.fixture
def process(tmp_path):
    """`agentrl envs serve` as a process of its own, and its URL."""
    code = "from agentrl_pipelines.cli.main import main; main()"
    flags = ["--port", "0", "--drain", "300"]
    command = [sys.executable, "-c", code, "envs", "serve", "corridor", *flags]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    with started(command, env=env, stdout=None, stderr=subprocess.PIPE) as server:
        assert server.stderr is not None
        line = server.stderr.readline()
        url = line.split(" on ")[1].split(",")[0]
        retries = httpx.HTTPTransport(retries=5)
        with httpx.Client(base_url=url, timeout=300, transport=retries) as http:
            yield server, http


def test_process_exits_after_sigterm_once_its_sessions_have_ended(process):
    server, http = process
    session = opened(http, "a").json()["id"]
    server.send_signal(signal.SIGTERM)
    while http.get("/readyz").status_code != 503:
        pass
    assert stepped(http, session, 1, "left").status_code == 200
    assert http.delete(f"/v1/sessions/{session}").status_code == 204
    assert server.wait(timeout=300) == 0
