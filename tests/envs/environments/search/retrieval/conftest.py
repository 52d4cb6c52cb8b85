"""A search service on a free port of this machine, whose answers a test sets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from http_server import serving


@dataclass
class SearchService:
    """`answers`: (status, body) of the next requests; the last one repeats."""

    url: str = ""
    answers: list[tuple[int, Any]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    """Of the answers."""
    requests: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    """Path with query, headers in lower case, and body of every request."""


@pytest.fixture
def service() -> Iterator[SearchService]:
    found = SearchService()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            size = int(self.headers.get("content-length", 0))
            body = json.loads(self.rfile.read(size)) if size else None
            headers = {name.lower(): value for name, value in self.headers.items()}
            found.requests.append((self.path, headers, body))
            status, answer = found.answers.pop(0) if len(found.answers) > 1 else found.answers[0]
            text = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
            self.send_response(status)
            for name, value in {**found.headers, "content-length": str(len(text))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            """Write nothing."""

    with serving(Handler) as found.url:
        yield found
