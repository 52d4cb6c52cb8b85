"""Start a MinIO server for tests, and open stores in it."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import urllib3
from free_ports import free_ports
from minio import Minio
from minio.credentials import StaticProvider

from agentrl_components.storage.s3.store import S3Store

ACCESS_KEY = "person"
SECRET_KEY = "a-secret-nobody-prints"
BUCKET = "runs"


def binary() -> str | None:
    """Path of the MinIO binary: `AGENTRL_MINIO`, PATH, or the build folders of hack/cluster."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentrl/cluster"
    candidates = [
        os.environ.get("AGENTRL_MINIO", ""),
        shutil.which("minio") or "",
        str(Path.home() / "go/bin/minio"),
        str(cache / "bin/minio"),
    ]
    return next((path for path in candidates if path and os.access(path, os.X_OK)), None)


@contextmanager
def running_server(
    program: str,
    folder: Path,
    options: Mapping[str, str] = MappingProxyType({}),
    certificates: Path | None = None,
) -> Iterator[str]:
    """Run the server with an empty bucket. `options`: environment variables that configure it.
    `certificates`: the folder with its certificate, which is its own authority; None: no TLS. Its
    errors go to a file beside `folder`. Yields its URL."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    endpoint = f"{'http' if certificates is None else 'https'}://{address}"
    trusted = None if certificates is None else str(certificates / "public.crt")
    arguments = ["server", "--quiet", "--address", address, str(folder)]
    if certificates is not None:
        arguments += ["--certs-dir", str(certificates)]
    log = folder.with_name(f"{folder.name}.log")
    with log.open("wb") as errors:
        server = subprocess.Popen(
            [program, *arguments],
            env={
                **os.environ,
                "MINIO_ROOT_USER": ACCESS_KEY,
                "MINIO_ROOT_PASSWORD": SECRET_KEY,
                "MINIO_BROWSER": "off",
                "MINIO_UPDATE": "off",  # it would ask a server outside
                **options,
            },
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
    try:
        deadline = time.monotonic() + 300
        while not ready(endpoint, trusted):
            assert time.monotonic() < deadline, f"MinIO does not start: {log.read_text()}"
            time.sleep(0.05)
        client(endpoint, trusted).make_bucket(BUCKET)
        yield endpoint
    finally:
        server.kill()
        server.wait()


def ready(endpoint: str, trusted: str | None = None) -> bool:
    """Whether the health endpoint answers."""
    context = None if trusted is None else ssl.create_default_context(cafile=trusted)
    try:
        with urllib.request.urlopen(f"{endpoint}/minio/health/ready", timeout=2, context=context):
            return True
    except OSError:
        return False


def client(endpoint: str, trusted: str | None = None) -> Minio:
    """The MinIO client, to inspect and change the bucket independently of `S3Store`. `trusted`: the
    file with the certificate of the server."""
    secure, address = endpoint.startswith("https"), endpoint.partition("://")[2]
    pool = None if trusted is None else urllib3.PoolManager(ca_certs=trusted)
    return Minio(
        address, access_key=ACCESS_KEY, secret_key=SECRET_KEY, secure=secure, http_client=pool
    )


def store_in(endpoint: str, deadline_s: float = 300.0, bucket: str = BUCKET) -> S3Store:
    """An empty store with a unique prefix."""
    return S3Store(
        bucket=bucket,
        prefix=f"test-{uuid.uuid4().hex}",
        endpoint=endpoint,
        region="us-east-1",
        credentials=StaticProvider(ACCESS_KEY, SECRET_KEY),
        deadline_s=deadline_s,
        timeout_s=60.0,
    )
