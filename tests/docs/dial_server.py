"""A server as docs/environments/your-own.md describes it, without AgentRL: the agent turns a dial
to a number."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit


def task(to: object) -> dict[str, Any]:
    digits = hashlib.sha256(f"dial {to}".encode()).hexdigest()[:16]
    return {"id": f"dial-{digits}", "category": "easy", "payload": {"to": to}}


def split_of(number: int) -> str:
    return "heldout" if int(task(number)["id"].removeprefix("dial-"), 16) % 5 == 0 else "train"


TASKS = {
    split: [task(n) for n in range(1, 26) if split_of(n) == split] for split in ("train", "heldout")
}
ABOUT = {
    "name": "dial",
    "instructions": "Turn the dial.",
    "vocabulary": None,
    **{split: len(tasks) for split, tasks in TASKS.items()},
    "capacity": 64,
    "ttl_s": 300,
    "version": "1",
    "tasks_hash": "3f2a",
}


class Failure(Exception):
    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


class Session:
    def __init__(self, to: int) -> None:
        self.id, self.to, self.at, self.answers = secrets.token_hex(8), to, 0, [b""]

    def observation(self, text: str = "") -> dict[str, Any]:
        told = text or f"dial at {self.at}, turn it to {self.to}"
        return {"text": told, "admissible": ["up", "down"]}

    def step(self, action: str) -> dict[str, Any]:
        wellformed, ended = action in ("up", "down"), self.at == self.to
        if not ended:
            self.at += {"up": 1, "down": -1}.get(action, 0)
        solved = self.at == self.to
        return {
            "observation": self.observation("" if wellformed else "say up or down"),
            "reward": float(solved and not ended),
            "terminated": solved,
            "truncated": False,
            "wellformed": wellformed,
            "success": solved,
            "raw_score": float(solved),
        }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body of an answer are two packets
    sessions: dict[str, Session]
    keys: dict[str, Session]

    def log_message(self, format: str, *args: object) -> None:
        del format, args

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def do_DELETE(self) -> None:
        self._answer(self._delete)

    def _get(self) -> tuple[int, object]:
        path = urlsplit(self.path)
        if path.path == "/v1/environment":
            return 200, ABOUT
        split, asked = path.path.removeprefix("/v1/tasks/"), parse_qs(path.query)
        start, count = int(asked["start"][0]), int(asked["count"][0])
        return 200, {"tasks": TASKS[split][start : start + count]}

    def _post(self) -> tuple[int, object]:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/v1/sessions":
            return self._open(body)
        if not self.path.startswith("/v1/sessions/"):
            raise Failure(404, "not_found", "there is no such route")
        session = self.sessions.get(self.path.split("/")[3])
        if session is None:
            raise Failure(404, "session", "it is not open")
        if body["n"] == len(session.answers):  # else it was sent before
            session.answers.append(json.dumps({"step": session.step(body["action"])}).encode())
        return 200, session.answers[body["n"]]

    def _open(self, body: dict[str, Any]) -> tuple[int, object]:
        if body.get("replaces"):
            self.sessions.pop(body["replaces"], None)
        if body["key"] not in self.keys:
            to = body["task"]["payload"].get("to")
            if body["task"] != task(to):
                raise Failure(422, "task", "there is no such task here")
            session = self.keys[body["key"]] = Session(to)
            self.sessions[session.id] = session
        session = self.keys[body["key"]]
        return 201, {"id": session.id, "ttl_s": 300, "observation": session.observation()}

    def _delete(self) -> tuple[int, object]:
        self.sessions.pop(self.path.split("/")[3], None)
        return 204, b""

    def _answer(self, of: Any) -> None:
        try:
            status, content = of()
        except Failure as error:
            told = {"type": error.kind, "message": str(error), "field": None}
            status, content = error.status, {"error": told}
        sent = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)


@contextmanager
def dial_server() -> Iterator[str]:
    """Yields the URL of a running server."""
    handler = type("OwnHandler", (Handler,), {"sessions": {}, "keys": {}})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()
