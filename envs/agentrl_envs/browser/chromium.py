"""How Chromium is found and started, and what its pages can reach.

Pages reach the named hosts and nothing else. Three settings of the browser, which no page can
change, hold this together:

- every request goes through a proxy that does not exist, except to the named `host:port` pairs
  (`<-loopback>` removes Chromium's own exception for loopback addresses);
- no other host name resolves;
- WebRTC may not send UDP past the proxy.

Requests are not intercepted one by one: that costs a round trip through Python for each, and does
not see all of them. Downloads, service workers and background networking are off.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterable
from urllib.parse import urlsplit

from playwright.async_api import Browser, Error, Playwright

from agentrl_envs.errors import TaskError

COMMANDS = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
"""Names on PATH, the preferred first: Debian's headless shell takes half the processor time."""

NO_PROXY = "http://blocked.invalid:80"
"""A proxy whose name does not resolve."""

UNUSED_FEATURES = (
    *("AutoDeElevate", "DestroyProfileOnBrowserClose", "HttpsUpgrades", "MediaRouter"),
    *("OptimizationHints", "PaintHolding", "ThirdPartyStoragePartitioning", "Translate"),
    "RenderDocument",
)
"""The features that Playwright turns off and that matter here (the last flag of a name counts), and
a new frame host for each document: without it a step takes 30 % less processor time."""

QUIET_FLAGS = (
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-domain-reliability",
    "--disable-component-update",
    "--no-pings",
    "--process-per-site",
    f"--disable-features={','.join(UNUSED_FEATURES)}",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
)

LAUNCH_TIMEOUT_S = 60.0


def executable() -> str:
    """Path of the Chromium on PATH. Raises `TaskError` if there is none."""
    for command in COMMANDS:
        if path := shutil.which(command):
            return path
    raise TaskError("browser: no Chromium is on PATH; install Debian's chromium-headless-shell")


def host_of(url: str) -> str:
    """`host:port` of a URL, with the scheme's port if it names none."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def flags(hosts: Iterable[str]) -> list[str]:
    """Flags of a browser whose pages reach `hosts` (`host:port`) only."""
    reached = sorted(set(hosts))
    names = sorted({host.rsplit(":", 1)[0] for host in reached})
    rules = ["MAP * ~NOTFOUND", *(f"EXCLUDE {name}" for name in names)]
    return [
        *QUIET_FLAGS,
        f"--proxy-server={NO_PROXY}",
        f"--proxy-bypass-list={';'.join(['<-loopback>', *reached])}",
        f"--host-resolver-rules={', '.join(rules)}",
    ]


async def launch(playwright: Playwright, hosts: Iterable[str]) -> Browser:
    """Start Chromium, with its sandbox where the system allows it.

    Root cannot use the sandbox, nor can a container without user namespaces; there the container is
    the boundary, and a warning says so. Raises `TaskError` if Chromium does not start."""
    path, arguments = executable(), flags(hosts)
    for sandboxed in (True, False) if os.geteuid() else (False,):
        try:
            browser = await playwright.chromium.launch(
                executable_path=path,
                args=arguments,
                chromium_sandbox=sandboxed,
                timeout=LAUNCH_TIMEOUT_S * 1e3,
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
        except Error as error:
            failure = error
            continue
        if not sandboxed:
            logging.getLogger(__name__).warning(
                "Chromium runs without its sandbox: the user is root, or the system allows no user"
                " namespaces"
            )
        return browser
    reason = str(failure).strip().splitlines()[0]
    raise TaskError(f"browser: {path} does not start: {reason}; run `{path} --headless` to see why")
