"""What `Installed` returns of kubectl, on a stand-in for it."""

from pathlib import Path

import pytest
from installed import Installed

LOGS = "E1123 18:56:37 websocket.go:296] Unknown stream id 1, discarding message"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installed:
    """With a kubectl that logs, prints `[true]` and exits with its last word."""
    program = tmp_path / "kubectl"
    program.write_text(f"#!/bin/sh\necho '{LOGS}' >&2\necho '[true]'\nexit $3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return Installed(kubeconfig="unused")


def test_what_kubectl_logs_is_no_part_of_its_output(installed: Installed) -> None:
    assert installed.kubectl("0") == "[true]\n"


def test_a_refusal_is_what_kubectl_logs(installed: Installed) -> None:
    assert installed.refusal("1") == f"{LOGS}\n"


def test_a_failure_and_a_missing_refusal_fail_the_test_that_asked(installed: Installed) -> None:
    with pytest.raises(AssertionError, match="Unknown stream"):
        installed.kubectl("1")
    with pytest.raises(AssertionError, match="succeeded"):
        installed.refusal("0")
