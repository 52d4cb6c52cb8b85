"""A tracking server for tests: it answers the calls that the worker makes, as MLflow's server does,
with answers that a test may replace, delay or refuse."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

API = "/api/2.0/mlflow/"
FILES = "/api/2.0/mlflow-artifacts/artifacts"
EXPERIMENT = {"experiment_id": "1", "name": "agentrl", "lifecycle_stage": "active"}
VERSION = {"name": "agent", "version": "1", "status": "READY"}


@dataclass
class MlflowServer:
    """What the server was asked, and what it answers."""

    uri: str = ""
    version: str = "3.17.2"
    run_id: str = field(default_factory=lambda: uuid4().hex)
    """MLflow's client keeps by this id where the artifacts of a run are."""
    artifacts: str = "mlflow-artifacts:/1/run/artifacts"
    """The artifact location of the run."""
    versions_asked: int = 0
    fails_version: int = 0
    """The first requests for the version that are answered with status 500."""
    refuses: dict[str, int] = field(default_factory=dict)
    """Statuses of requests by a part of their paths."""
    answers_files_after_s: float = 0.0
    fails_file: str = ""
    """The first upload of the file with this name is answered with status 500."""
    largest_spans: int | None = None
    """A larger request with spans, in bytes, is answered with status 413."""
    calls: list[str] = field(default_factory=list)
    """Method and path of the requests, in their order."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Uploaded files by path."""
    uploads: list[str] = field(default_factory=list)
    """Paths of the uploads, in their order."""
    span_requests: list[int] = field(default_factory=list)
    """Sizes of the requests with spans in bytes."""

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: bytes):
        """Status and content of the answer."""
        self.calls.append(f"{method} {path}")
        for part, status in self.refuses.items():
            if part in path:
                return status, {"error_code": "UNSET", "message": f"refused with {status}"}
        if path == "/version":
            self.versions_asked += 1
            return (500, "") if self.versions_asked <= self.fails_version else (200, self.version)
        if path == "/v1/traces":
            self.span_requests.append(len(body))
            refused = self.largest_spans is not None and len(body) > self.largest_spans
            return (413, "too large") if refused else (200, {})
        if path.startswith(FILES):
            return self._answer_files(method, path.removeprefix(FILES).lstrip("/"), query, body)
        if method == "GET" and "/traces" in path:
            return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no such trace"}
        run = {
            "info": {
                "run_id": self.run_id,
                "run_uuid": self.run_id,
                "experiment_id": "1",
                "status": "RUNNING",
                "lifecycle_stage": "active",
                "artifact_uri": self.artifacts,
            },
            "data": {},
        }
        answers = {
            "experiments/get-by-name": {"experiment": EXPERIMENT},
            "runs/create": {"run": run},
            "runs/get": {"run": run},
            "runs/update": {"run_info": run["info"]},
            "model-versions/search": {},
            "model-versions/create": {"model_version": VERSION},
        }
        if path.startswith("/api/3.0/mlflow/traces"):
            trace = json.loads(body)["trace"]["trace_info"]
            return 200, {"trace": {"trace_info": trace}}
        return 200, answers.get(path.removeprefix(API), {})

    def _answer_files(self, method: str, path: str, query: dict[str, list[str]], body: bytes):
        if method == "GET":
            folder = query["path"][0] + "/"
            found = [name for name in self.files if name.startswith(folder)]
            return 200, {
                "files": [
                    {
                        "path": name.removeprefix(folder),
                        "is_dir": False,
                        "file_size": len(self.files[name]),
                    }
                    for name in found
                    if "/" not in name.removeprefix(folder)
                ]
            }
        time.sleep(self.answers_files_after_s)
        self.uploads.append(path)
        if self.fails_file and path.endswith(self.fails_file):
            self.fails_file = ""
            return 500, {"error_code": "INTERNAL_ERROR", "message": "no space"}
        self.files[path] = body
        return 200, {}


@contextmanager
def mlflow_server() -> Iterator[MlflowServer]:
    """A server on a free port of this machine."""
    served = MlflowServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = urlsplit(self.path)
            status, content = served.answer(self.command, parts.path, parse_qs(parts.query), body)
            data = (content if isinstance(content, str) else json.dumps(content)).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except ConnectionError:  # the client did not wait
                self.close_connection = True

        do_GET = do_POST = do_PUT = do_PATCH = _serve

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.uri = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
