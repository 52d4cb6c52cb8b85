"""Whether Chromium can use its sandbox here.

Chromium isolates its renderers in a user namespace with process and network namespaces of their
own. Three things prevent it: the user root, for whom Chromium refuses to run sandboxed; a container
runtime whose seccomp profile forbids new user namespaces (containerd's and Docker's default
profiles do, without CAP_SYS_ADMIN); and a kernel setting. Its other sandbox, a setuid program, does
not work without privilege escalation. The same namespaces are therefore made once, by unshare(1),
before Chromium is started: a failed start of Chromium has too many other causes to tell.
"""

from __future__ import annotations

import os
import shutil
import subprocess

NAMESPACES = ("--user", "--map-current-user", "--pid", "--net", "--fork")
TIMEOUT_S = 10.0


def sandbox_problem() -> str | None:
    """Why Chromium cannot use its sandbox; None: it can. Without unshare(1), which every Linux
    distribution has, there are no user namespaces to try, and None."""
    if os.geteuid() == 0:
        return "the user is root"
    unshare = shutil.which("unshare")
    if unshare is None:
        return None
    probe = subprocess.run(
        [unshare, *NAMESPACES, "--", "true"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if probe.returncode == 0:
        return None
    said = probe.stderr.strip().splitlines() or [f"exit code {probe.returncode}"]
    return f"user namespaces are not allowed here ({said[0]})"
