"""Connections to an S3 service: direct or through a proxy, and with certificates of an authority of
one's own."""

import ipaddress
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import urllib3
from certificates import write_certificate
from cryptography import x509
from minio_service import binary, running_server, store_in

from agentrl_components.errors import StoreError
from agentrl_components.storage.s3.pools import EnvironmentPool, proxy_of

NEEDS_MINIO = pytest.mark.skipif(binary() is None, reason="no MinIO is installed")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def proxy():
    """The URL of an HTTP proxy, and the lines and authorizations of the requests to it."""
    seen = []

    class Forward(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self):
            seen.append((f"{self.command} {self.path}", self.headers.get("Proxy-Authorization")))
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {k: v for k, v in self.headers.items() if not k.startswith("Proxy-")}
            with urllib3.PoolManager() as pool:
                answer = pool.request(self.command, self.path, body=body, headers=headers)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            size = answer.headers.get("Content-Length") if self.command == "HEAD" else None
            self.send_header("Content-Length", size or str(len(answer.data)))
            self.end_headers()
            self.wfile.write(answer.data)

        do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = forward

        def log_message(self, *_):
            """No log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Forward)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}", seen
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_proxy_is_that_of_the_scheme_unless_the_host_is_excepted(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "proxy:3128")
    monkeypatch.setenv("NO_PROXY", ".svc,minio.test")
    assert proxy_of("https://s3.amazonaws.com") == "http://proxy:3128"
    assert proxy_of("http://s3.amazonaws.com") is None
    assert proxy_of("https://minio.kubeflow.svc:9000") is None
    assert proxy_of("https://minio.test:9000") is None


def test_a_proxy_that_is_not_one_of_http_is_refused_by_its_name(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "socks5h://proxy:1080")
    with pytest.raises(StoreError, match=r"HTTPS_PROXY: is no .*; .* or add s3.test to NO_PROXY"):
        EnvironmentPool().request("GET", "https://s3.test/a")


def test_a_pool_without_proxies_sends_requests_directly(monkeypatch, proxy):
    address, seen = proxy
    monkeypatch.setenv("HTTP_PROXY", f"http://{address}")
    with pytest.raises(urllib3.exceptions.HTTPError):
        EnvironmentPool(proxied=False, retries=False).request("GET", "http://127.0.0.1:9/token")
    assert seen == []


@NEEDS_MINIO
def test_a_store_is_read_and_written_through_a_proxy(monkeypatch, tmp_path, proxy):
    address, seen = proxy
    with running_server(binary(), tmp_path) as endpoint:
        monkeypatch.setenv("HTTP_PROXY", f"http://me:p%40ss@{address}")
        store = store_in(endpoint)
        store.put("a", b"first")
        with pytest.raises(StoreError):  # the condition of the put reaches the service
            store.put("a", b"second")
        assert store.get("a") == b"first"
    assert {line.split()[1].startswith(f"{endpoint}/") for line, _ in seen} == {True}
    assert {user for _, user in seen} == {"Basic bWU6cEBzcw=="}


@NEEDS_MINIO
def test_a_store_with_a_certificate_of_a_private_authority_needs_its_bundle(monkeypatch, tmp_path):
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    write_certificate(tmp_path / "certs", address)
    bundle = tmp_path / "certs/public.crt"
    with running_server(binary(), tmp_path / "data", certificates=tmp_path / "certs") as endpoint:
        with pytest.raises(StoreError, match="certificate verify failed"):
            store_in(endpoint, deadline_s=0.1).exists("a")
        monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
        store = store_in(endpoint)
        store.put("a", b"first")
        assert store.get("a") == b"first"
