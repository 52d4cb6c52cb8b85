"""Whether Chromium can use its sandbox: decided by making the namespaces that it needs."""

import os
from pathlib import Path

import pytest
from web_pages import needs_chromium

from agentrl_envs.browser.sandbox import sandbox_problem
from agentrl_envs.browser.thread import BrowserThread
from agentrl_envs.errors import SessionError

as_user = pytest.mark.skipif(os.geteuid() == 0, reason="the probe is not made for root")


def unshare_that(folder: Path, script: str) -> str:
    """A folder for PATH whose `unshare` runs the script."""
    program = folder / "unshare"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_has_no_sandbox():
    assert sandbox_problem() == "the user is root"


@as_user
def test_the_sandbox_is_used_where_user_namespaces_are_allowed(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", unshare_that(tmp_path, "exit 0"))
    assert sandbox_problem() is None


@as_user
def test_a_refusal_of_user_namespaces_is_the_reason(monkeypatch, tmp_path):
    said = "unshare: unshare failed: Operation not permitted"
    monkeypatch.setenv("PATH", unshare_that(tmp_path, f"echo '{said}' >&2; exit 1"))
    assert sandbox_problem() == f"user namespaces are not allowed here ({said})"


@as_user
def test_a_probe_without_an_answer_is_an_error_that_names_the_command(monkeypatch, tmp_path):
    """Regression: the exception ended the start of the browser without a reason."""
    monkeypatch.setenv("PATH", unshare_that(tmp_path, "exec /bin/sleep 60"))
    message = rf"sandbox is not known: {tmp_path}/unshare did not answer in 0\.1 s; run `{tmp_path}"
    with pytest.raises(SessionError, match=message):
        sandbox_problem(timeout_s=0.1)


@as_user
def test_a_probe_that_does_not_run_is_an_error(monkeypatch, tmp_path):
    program = tmp_path / "unshare"
    program.write_text("neither a script nor a binary")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SessionError, match="unshare does not run: Exec format error; run `"):
        sandbox_problem()


@needs_chromium
def test_what_was_found_is_logged_when_chromium_starts(caplog):
    caplog.set_level("INFO", logger="agentrl_envs")
    thread = BrowserThread(frozenset())
    try:
        thread.start()
    finally:
        thread.close()
    problem = sandbox_problem()
    expected = "with its sandbox" if problem is None else f"without its sandbox: {problem}"
    (line,) = [each.getMessage() for each in caplog.records if "sandbox" in each.getMessage()]
    assert line.startswith("Chromium ")
    assert line.endswith(expected)
