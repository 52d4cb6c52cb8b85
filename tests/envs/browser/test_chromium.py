"""What pages can reach, tried from inside a page."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from web_pages import needs_chromium, running_site

from agentrl_envs.browser.chromium import flags, host_of
from agentrl_envs.browser.session import BrowserSession, View
from agentrl_envs.browser.thread import BrowserThread, start_browser
from agentrl_envs.errors import OptionError, SessionError


@contextmanager
def tcp_and_udp() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Sockets of both kinds that are bound to one port number."""
    while True:
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            tcp.bind(("127.0.0.1", 0))
            try:
                udp.bind(tcp.getsockname())
            except OSError:  # another process has this number for UDP
                continue
            yield tcp, udp
            return


@contextmanager
def listener() -> Iterator[tuple[str, list[bytearray]]]:
    """A TCP and UDP port of this machine that no site uses, and the first line of each connection
    and packet that arrived there; empty until the connection sends one."""
    arrived: list[bytearray] = []
    connections: list[socket.socket] = []
    readers: list[threading.Thread] = []
    with tcp_and_udp() as (tcp, udp):
        tcp.listen()
        for each in (tcp, udp):
            each.settimeout(0.2)
        stopped = threading.Event()

        def read(connection: socket.socket, line: bytearray) -> None:
            with connection, suppress(ConnectionError):
                line.extend(connection.recv(1000).split(b"\r\n")[0])

        def accept() -> None:
            while not stopped.is_set():
                with suppress(TimeoutError):
                    connection, _ = tcp.accept()
                    arrived.append(line := bytearray())
                    connections.append(connection)
                    readers.append(threading.Thread(target=read, args=(connection, line)))
                    readers[-1].start()

        def receive() -> None:
            while not stopped.is_set():
                try:
                    arrived.append(bytearray(udp.recv(100)))
                except TimeoutError:
                    continue

        threads = [threading.Thread(target=each) for each in (accept, receive)]
        for thread in threads:
            thread.start()
        try:
            yield f"127.0.0.1:{tcp.getsockname()[1]}", arrived
        finally:
            stopped.set()
            for thread in threads:
                thread.join()
            for connection in connections:  # those on which nothing was sent
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            for thread in readers:
                thread.join()


async def show(session: BrowserSession, url: str) -> View:
    await session.begin([url], None)
    return await session.view()


def test_hosts_have_a_port():
    assert host_of("http://shop.example/a") == "shop.example:80"
    assert host_of("https://shop.example") == "shop.example:443"
    assert host_of("http://127.0.0.1:7770/shopping") == "127.0.0.1:7770"


def test_the_flags_name_the_hosts_that_are_reached():
    found = flags(["shop.example:80", "127.0.0.1:7770"])
    assert "--proxy-bypass-list=<-loopback>;127.0.0.1:7770;shop.example:80" in found
    rules = "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE shop.example"
    assert f"--host-resolver-rules={rules}" in found


async def called(session: BrowserSession, url: str, hosts: int) -> str:
    """The text of the page `/call`, when its WebSockets to so many hosts were closed, and its call
    has its addresses or cannot be made."""
    view = await show(session, url)
    while view.titles != (f"closed {hosts}",) or view.elements[-1].name == "waiting":
        await asyncio.sleep(0.1)
        view = await session.view()
    return view.elements[-1].name


@needs_chromium
def test_pages_reach_their_site_and_nothing_else():
    """Fetches, images, beacons, WebSockets and WebRTC, to ports of this machine that listen. Those
    to the port that pages may reach arrive."""
    with running_site() as site, listener() as (mine, found), listener() as (other, arrived):
        thread = BrowserThread(frozenset({site.host, mine}))
        session = BrowserSession(thread, 1280, 720)
        try:
            targets = ["/mug", f"http://{other}/", "http://outside.example/", "http://10.0.0.1/"]
            url = f"{site.url}/reach#{','.join(targets)}"
            view = thread.run(show(session, url), 60)
            assert view.elements[-1].name == "reached blocked blocked blocked"
            assert thread.run(called(session, f"{site.url}/call#{mine},{other}", 2), 60) == "done"
            assert arrived == []
            wanted = {b"GET /socket HTTP/1.1", b"POST /beacon HTTP/1.1", b"GET /image.png HTTP/1.1"}
            deadline = time.monotonic() + 30
            while not wanted <= set(map(bytes, found)) and time.monotonic() < deadline:
                time.sleep(0.1)
            assert wanted <= set(map(bytes, found))
        finally:
            thread.close()
        assert arrived == []


@needs_chromium
def test_a_browser_that_died_is_lost_and_the_next_reset_starts_another():
    with running_site() as site:
        thread = BrowserThread(frozenset({site.host}))
        session = BrowserSession(thread, 1280, 720)
        try:
            thread.run(show(session, site.url), 60)

            async def kill() -> None:
                browser = await thread.browser()
                await (await browser.new_browser_cdp_session()).send("Browser.crash")

            with pytest.raises(SessionError):
                thread.run(kill(), 60)
            with pytest.raises(SessionError):
                thread.run(session.view(), 60)
            session.lose("the browser died")
            assert thread.run(show(session, site.url), 60).titles == ("Home",)
            assert thread.launches == 2
        finally:
            thread.close()


@needs_chromium
def test_a_renderer_that_crashes_loses_its_session_only():
    with running_site() as site:
        thread = BrowserThread(frozenset({site.host}))
        one, other = BrowserSession(thread, 1280, 720), BrowserSession(thread, 1280, 720)

        async def crash() -> None:
            await one.visit("chrome://crash")
            await one.settle()

        try:
            for session in (one, other):
                thread.run(show(session, site.url), 60)
            with pytest.raises(SessionError, match="crash"):
                thread.run(crash(), 60)
            assert thread.run(other.view(), 60).titles == ("Home",)
            assert thread.run(show(one, site.url), 60).titles == ("Home",)
            assert thread.launches == 1
        finally:
            thread.close()


@needs_chromium
def test_a_page_that_never_rests_costs_a_bound_and_not_the_episode():
    with running_site() as site:
        thread = BrowserThread(frozenset({site.host}))
        session = BrowserSession(thread, 1280, 720)
        try:
            view = thread.run(show(session, f"{site.url}/busy"), 60)
            assert int(view.elements[-1].name) > 0
        finally:
            thread.close()


def test_missing_chromium_is_named_with_the_fix(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OptionError, match="Chromium is not installed; apt-get install chromium-"):
        start_browser(frozenset({"missing.test:80"}))


def test_a_chromium_that_does_not_start_is_named_before_there_is_a_session(monkeypatch, tmp_path):
    """Regression: the first session was lost, and each one after it."""
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OptionError, match=f"{program} does not start: .*; run `{program} --head"):
        start_browser(frozenset({"broken.test:80"}))
