"""The log of the operator."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import datetime

LOGGING = """
import logging, sys
from agentrl_operator.telemetry.logs import log_to_stderr

log_to_stderr(sys.argv[1])
log = logging.getLogger("agentrl")
log.debug("is left out")
log.info("run %s is trained for %d iterations", "demo-ü", 3)
logging.getLogger("kopf").info("is left out too")
logging.getLogger("kopf.objects").warning("a field is\\nunknown")
try:
    {}["absent"]
except KeyError:
    log.exception("reconciling failed")
"""


def lines(style: str) -> list[str]:
    """What a process writes to stderr that logs in this style."""
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", LOGGING, style],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_a_line_is_a_json_object_with_the_traceback_of_an_error():
    info, warning, error = map(json.loads, lines("json"))
    for one in (info, warning, error):
        assert datetime.fromisoformat(one.pop("time")).utcoffset() is not None
    assert info == {
        "level": "info",
        "logger": "agentrl",
        "message": "run demo-ü is trained for 3 iterations",
    }
    assert warning == {
        "level": "warning",
        "logger": "kopf.objects",
        "message": "a field is\nunknown",
    }
    traceback = error.pop("error").splitlines()
    assert (traceback[0], traceback[-1]) == (
        "Traceback (most recent call last):",
        "KeyError: 'absent'",
    )
    assert error == {"level": "error", "logger": "agentrl", "message": "reconciling failed"}


def test_plain_lines_have_the_time_and_the_level():
    info, warning, *_ = lines("plain")
    assert re.fullmatch(r"[-\d]+ [:,\d]+ INFO    run demo-ü is trained for 3 iterations", info)
    assert warning.endswith(" WARNING a field is")
