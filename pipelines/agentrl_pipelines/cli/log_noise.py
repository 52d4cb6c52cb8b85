"""Filter for the lines that Kubeflow's launcher and Argo write into a stage's log.

They share the stage's container. The launcher writes in the format of glog, Argo in that of logrus
(3.x) or slog (4.x), with `argo=true`:

    I1128 15:21:22.502999      27 launcher_v2.go:181] publish success.
    time="2025-11-28T15:21:23.490Z" level=info msg="sub-process exited" argo=true error="<nil>"
    time=2026-08-14T23:19:20.845Z level=INFO msg="sub-process exited" argo=true error=<nil>

Their warnings and errors are kept, since they may be the reason why a stage failed.
"""

from __future__ import annotations

import re

_LAUNCHER = re.compile(r"I\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ \w+\.go:\d+\] ")
_ARGO = re.compile(
    r'time="?\d{4}-\d\d-\d\dT\S+ level=(?:debug|info) msg=.* argo=true(?: |$)', re.IGNORECASE
)
_OUTPUT = re.compile(r".*\] .*\{$")
"""The first line of a JSON object that ends with a line `}`: ExecutorInput, ExecutorOutput, ..."""
_INSIDE_OUTPUT = re.compile(r' +["{}\[\]]')


class NoiseFilter:
    """Recognises launcher and Argo lines in the log of one container. Stateful: pass every line, in
    order."""

    def __init__(self) -> None:
        self._inside_output = False

    def is_noise(self, line: str) -> bool:
        """Whether the next line of the log was written by the launcher or by Argo."""
        if self._inside_output:
            self._inside_output = bool(_INSIDE_OUTPUT.match(line))
            if self._inside_output or line == "}":
                return True
        if _LAUNCHER.match(line):
            self._inside_output = bool(_OUTPUT.match(line))
            return True
        return bool(_ARGO.match(line))
