"""What Kubeflow's launcher and Argo say around a stage, in the log of the stage's own container.

The launcher logs in glog's form, Argo in logrus' (3.x) or slog's (4.x), with `argo=true`:

    I1128 15:21:22.502999      27 launcher_v2.go:181] publish success.
    time="2025-11-28T15:21:23.490Z" level=info msg="sub-process exited" argo=true error="<nil>"
    time=2026-08-14T23:19:20.845Z level=INFO msg="sub-process exited" argo=true error=<nil>

Their warnings and errors may be why a stage failed, so they are not chatter.
"""

from __future__ import annotations

import re

_LAUNCHER = re.compile(r"I\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ \w+\.go:\d+\] ")
_ARGO = re.compile(
    r'time="?\d{4}-\d\d-\d\dT\S+ level=(?:debug|info) msg=.* argo=true(?: |$)', re.IGNORECASE
)
_OUTPUT = re.compile(r".*\] ExecutorOutput: \{$")
"""Begins a JSON object of many lines, which a line `}` ends."""
_WITHIN = re.compile(r' +["{}\[\]]')


class Chatter:
    """Tells it from the rest, in the log of one container."""

    def __init__(self) -> None:
        self._within = False

    def has(self, line: str) -> bool:
        """Whether the next line of the log is chatter. To be asked for every line, in order."""
        if self._within:
            self._within = bool(_WITHIN.match(line))
            if self._within or line == "}":
                return True
        if _LAUNCHER.match(line):
            self._within = bool(_OUTPUT.match(line))
            return True
        return bool(_ARGO.match(line))
