"""A MinIO server of the tests' own, and stores in it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minio import Minio
from minio.credentials import StaticProvider

from agentrl_components.storage.s3 import S3Store

PERSON = "person"
SECRET = "a-secret-nobody-prints"
BUCKET = "runs"


def binary() -> str | None:
    """Where the server is: named, on PATH, or where hack/cluster builds it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentrl/cluster"
    candidates = [
        os.environ.get("AGENTRL_MINIO", ""),
        shutil.which("minio") or "",
        str(Path.home() / "go/bin/minio"),
        str(cache / "bin/minio"),
    ]
    return next((path for path in candidates if path and os.access(path, os.X_OK)), None)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def serving(program: str, folder: Path) -> Iterator[str]:
    """Its URL, with an empty bucket in it."""
    address = f"127.0.0.1:{free_port()}"
    server = subprocess.Popen(
        [program, "server", "--quiet", "--address", address, str(folder)],
        env={
            **os.environ,
            "MINIO_ROOT_USER": PERSON,
            "MINIO_ROOT_PASSWORD": SECRET,
            "MINIO_BROWSER": "off",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 300
        while not ready(address):
            assert time.monotonic() < deadline, "MinIO does not start"
            time.sleep(0.05)
        endpoint = f"http://{address}"
        client(endpoint).make_bucket(BUCKET)
        yield endpoint
    finally:
        server.kill()
        server.wait()


def ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/minio/health/ready", timeout=2):
            return True
    except OSError:
        return False


def client(endpoint: str) -> Minio:
    """Not ours: to see what ours did, and to disturb it."""
    address = endpoint.removeprefix("http://")
    return Minio(address, access_key=PERSON, secret_key=SECRET, secure=False)


def store_in(endpoint: str, deadline_s: float = 300.0, bucket: str = BUCKET) -> S3Store:
    """An empty store, at a prefix of its own."""
    return S3Store(
        bucket=bucket,
        prefix=f"test-{uuid.uuid4().hex}",
        endpoint=endpoint,
        region="us-east-1",
        credentials=StaticProvider(PERSON, SECRET),
        deadline_s=deadline_s,
        timeout_s=60.0,
    )
