"""A page that is asked for while the network changes. `test_activity.py` runs this program in a
network namespace of its own, because the browsers of other tests would notice the change too.

    unshare --net sh -c 'ip link set lo up && python tests/envs/browser/network_change.py'

Prints the titles of the tabs.
"""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from agentrl_envs.browser.session import BrowserSession
from agentrl_envs.browser.thread import BrowserThread


class Page(BaseHTTPRequestHandler):
    """Answers every request with the same document."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>Here</title><p>here</p>")

    def log_message(self, *_: object) -> None: ...


class ShortQueue(ThreadingHTTPServer):
    """Holds one connection that is not answered yet; others wait."""

    request_queue_size = 0


def change_network() -> None:
    """Add an interface with an address for documentation, and remove it."""
    for command in (
        "link add one type veth peer name other",
        "link set other up",
        "link set one up",
        "addr add 192.0.2.1/24 dev one",
        "link del one",
    ):
        subprocess.run(["ip", *command.split()], check=True)
        time.sleep(0.2)


def answer_late(server: ThreadingHTTPServer) -> None:
    """Change the network while the browser connects, and answer then."""
    time.sleep(2)
    change_network()
    server.serve_forever()


async def titles(session: BrowserSession, url: str) -> tuple[str, ...]:
    """What the tabs show after a visit."""
    await session.begin([url], None)
    return (await session.view()).titles


def main() -> None:
    thread = BrowserThread(frozenset({"127.0.0.1"}))
    session = BrowserSession(thread, 800, 600)
    with ShortQueue(("127.0.0.1", 0), Page) as server, ExitStack() as stack:
        for _ in range(3):  # its queue is full
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect(server.server_address)
        threading.Thread(target=answer_late, args=(server,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        print(*thread.run(titles(session, url), 60))
        server.shutdown()
    thread.close()


if __name__ == "__main__":
    main()
