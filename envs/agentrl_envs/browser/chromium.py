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

import asyncio
import logging
from collections.abc import Iterable
from urllib.parse import urlsplit

from playwright.async_api import Browser, Error, Playwright

from agentrl_envs.browser.sandbox import sandbox_problem
from agentrl_envs.errors import SessionError
from agentrl_envs.needs import CHROMIUM

LOG = logging.getLogger(__name__)

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
    """Start Chromium, with its sandbox unless the system prevents that (`sandbox_problem`); there
    the container is the boundary, and a warning says so. Raises `SessionError` if Chromium is not
    installed or does not start, or if it is not known whether it can use its sandbox."""
    path = CHROMIUM.path()
    if path is None:
        raise SessionError(f"browser: {CHROMIUM.name} is not installed; {CHROMIUM.fix}")
    problem = await asyncio.to_thread(sandbox_problem)
    try:
        browser = await playwright.chromium.launch(
            executable_path=path,
            args=flags(hosts),
            chromium_sandbox=problem is None,
            timeout=LAUNCH_TIMEOUT_S * 1e3,
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
    except Error as error:
        reason = str(error).strip().splitlines()[0]
        raise SessionError(
            f"browser: {path} does not start: {reason}; run `{path} --headless` to see why"
        ) from error
    if problem is None:
        LOG.info("Chromium %s runs with its sandbox", browser.version)
    else:
        LOG.warning("Chromium %s runs without its sandbox: %s", browser.version, problem)
    return browser
