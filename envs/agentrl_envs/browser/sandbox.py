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

from agentrl_envs.errors import SessionError

NAMESPACES = ("--user", "--map-current-user", "--pid", "--net", "--fork")
TIMEOUT_S = 10.0


def sandbox_problem(timeout_s: float = TIMEOUT_S) -> str | None:
    """Why Chromium cannot use its sandbox; None: it can, or there is no unshare(1) to find out,
    which every Linux distribution has.

    Raises `SessionError` if unshare does not run or gives no answer: a machine that is busy for a
    moment is no reason to run without the sandbox."""
    if os.geteuid() == 0:
        return "the user is root"
    unshare = shutil.which("unshare")
    if unshare is None:
        return None
    command = [unshare, *NAMESPACES, "--", "true"]
    try:
        probe = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _unknown(command, f"did not answer in {timeout_s:g} s") from None
    except OSError as error:
        raise _unknown(command, f"does not run: {error.strerror}") from error
    if probe.returncode == 0:
        return None
    said = probe.stderr.strip().splitlines() or [f"exit code {probe.returncode}"]
    return f"user namespaces are not allowed here ({said[0]})"


def _unknown(command: list[str], reason: str) -> SessionError:
    return SessionError(
        f"browser: whether Chromium can use its sandbox is not known: {command[0]} {reason}; "
        f"run `{' '.join(command)}` to see why"
    )
