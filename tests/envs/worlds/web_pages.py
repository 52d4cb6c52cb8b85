"""A small site for tests of the browser: static pages, a form, a login, and pages that fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

import pytest
from http_server import serving

from agentrl_envs.needs import CHROMIUM

needs_chromium = pytest.mark.skipif(
    CHROMIUM.path() is None,
    reason=f"no Chromium on PATH: {CHROMIUM.fix}",
)

CALL = """<title>Call</title><p id=out>waiting<script>
const hosts = location.hash.slice(1).split(',');
let closed = 0;
for (const host of hosts) {
  const socket = new WebSocket(`ws://${host}/socket`);
  socket.onclose = () => { closed += 1; document.title = `closed ${closed}`; };
  navigator.sendBeacon(`http://${host}/beacon`, 'x');
  new Image().src = `http://${host}/image.png`;
}
try {
  const call = new RTCPeerConnection({iceServers: hosts.map(host => ({urls: `stun:${host}`}))});
  call.createDataChannel('a');
  call.onicegatheringstatechange = () => {
    if (call.iceGatheringState === 'complete') out.textContent = 'done';
  };
  call.createOffer().then(offer => call.setLocalDescription(offer));
} catch (error) {
  out.textContent = `no call: ${error}`;
}
</script>"""
"""Tries to reach the hosts of its fragment by a WebSocket, a beacon, an image and a call. The title
counts the WebSockets that were closed, and the text is `done` when the call knows its addresses."""
HOME = """<!doctype html><title>Home</title><h1>Small shop</h1>
<nav><a href="/mug">Red mug</a> <a href="/tall">Tall page</a>
<a href="/mug" target=_blank>New tab</a>
<a href="http://outside.example/">Outside</a> <a href="/broken">Broken</a></nav>
<form action="/search"><input name=q aria-label="Search"><button>Find</button></form>
<form><select aria-label="Colour"><option>red<option>blue</select></form>
<p>Three mugs in stock</p><div></div><div><img></div>"""

PAGES = {
    "/": HOME,
    "/mug": "<title>Mug</title><h1 id=name>Red mug</h1><p id=price>$12</p><ul>"
    "<li>dishwasher<li>microwave</ul><input id=amount aria-label=Amount value=2>",
    "/tall": "<title>Tall</title><a href='/'>Top link</a><div style='height:1500px'></div>"
    "<a href='/mug'>Bottom link</a>",
    "/late": "<title>Late</title><button onclick=\"setTimeout(() => fetch('/slow')"
    '.then(r => r.text()).then(t => setTimeout(() => this.textContent = t, 200)), 200)">Load'
    "</button>",
    "/slow": "loaded",
    "/busy": "<title>Busy</title><p id=n>0</p>"
    "<script>setInterval(() => n.textContent++, 5)</script>",
    "/stuck": "<title>Stuck</title><button onclick='while (true);'>Hang</button>",
    "/reach": "<title>Reach</title><p id=out>waiting<script>"
    "Promise.all(location.hash.slice(1).split(',').map(u => fetch(u, {mode: 'no-cors'})"
    ".then(() => 'reached', () => 'blocked'))).then(all => out.textContent = all.join(' '))"
    "</script>",
    "/call": CALL,
    "/store": "<title>Store</title><p id=seen></p><script>"
    "seen.textContent = ['cookie ' + document.cookie, 'local ' + localStorage.length,"
    " 'session ' + sessionStorage.length, 'name ' + window.name, 'history ' + history.length]"
    ".join(', '); document.cookie = 'a=1'; localStorage.a = 1; sessionStorage.a = 1;"
    " window.name = 'a'</script>",
    "/generated": "<title>Generated</title><style>p::before {content: 'Price: '}"
    " a::before {content: '\\f007'}</style><p>$12</p><a href='/'></a><div>so <q>cheap</q></div>",
    "/frames": "<title>Frames</title><h1>Red mug</h1><iframe src='http://outside.example/'></iframe>"
    "<iframe src='/broken'></iframe>",
    "/again": "<title>Again</title><script>setInterval(() => document.cookie = 'a=1', 1)</script>",
    "/welcome": "<title>In</title>welcome<script>setInterval(() => fetch('/slow'), 50)</script>",
    "/login": "<title>Login</title><form method=post><input name=user aria-label=User>"
    "<input type=password name=password aria-label=Password><button>Sign in</button></form>",
}


class Site:
    """A site, which runs at `url`. `requests` are the paths that were asked for, `logins` the login
    forms, `sessions` the values of the cookie `user` that the site knows: others are replaced.
    `max_age_s`: seconds after which that cookie expires. None: with the browser."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[str] = []
        self.logins = 0
        self.sessions: set[str] = set()
        self.max_age_s: int | None = None
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                site.requests.append(parts.path)
                if parts.path == "/search":
                    words = parse_qs(parts.query).get("q", [""])[0]
                    self.answer(f"<title>Search</title><p>Results for {words}")
                elif parts.path == "/account":
                    known = self.user() in site.sessions
                    self.answer(
                        f"<title>Account</title><p>{'Hello ann' if known else 'Nobody'}</p>"
                        "<a href='/logout'>Sign out</a>"
                    )
                elif parts.path == "/logout":
                    site.sessions.discard(self.user())
                    self.answer("<title>Out</title>See you")
                elif parts.path == "/broken":
                    self.answer("broken", status=500)
                else:
                    self.answer(PAGES.get(parts.path, "<title>Missing</title><p>no page"))

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                form = parse_qs(self.rfile.read(length).decode())
                site.logins += 1
                if form.get("password") == ["secret"]:
                    value = f"{form['user'][0]}-{site.logins}"
                    site.sessions.add(value)
                    self.answer(PAGES["/welcome"], cookie=f"user={value}")
                else:
                    self.answer(PAGES["/login"])

            def user(self) -> str:
                """The value of the cookie `user`; empty: there is none."""
                cookies = self.headers.get("Cookie", "").split("; ")
                return next((c[5:] for c in cookies if c.startswith("user=")), "")

            def answer(self, body: str, status: int = 200, cookie: str = "") -> None:
                content = body.encode()
                self.send_response(status)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
                if self.command == "POST":
                    self.send_header("Cache-Control", "no-store")
                if not cookie and self.user() and self.user() not in site.sessions:
                    cookie = "user=nobody"
                if cookie:
                    age = "" if site.max_age_s is None else f"; Max-Age={site.max_age_s}"
                    self.send_header("Set-Cookie", f"{cookie}; Path=/{age}")
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self.handler = Handler

    @property
    def host(self) -> str:
        """Address and port."""
        return urlsplit(self.url).netloc


@contextmanager
def running_site() -> Iterator[Site]:
    site = Site()
    with serving(site.handler) as site.url:
        yield site
