"""What only a store behind a network can meet."""

import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

import pytest
from minio.credentials import StaticProvider
from minio_service import SECRET, client, free_port, store_in

from agentrl_components.errors import StoreError
from agentrl_components.storage.s3 import S3Store


def test_a_service_that_is_down_is_given_up_after_the_deadline() -> None:
    store = store_in(f"http://127.0.0.1:{free_port()}", deadline_s=0.5)
    with pytest.raises(StoreError, match=r"^a: in s3://runs/.*refused") as caught:
        store.put("a", b"1")
    assert SECRET not in str(caught.value)


class Unwell(BaseHTTPRequestHandler):
    """Answers 503 twice, then as an S3 service without the object."""

    asked = 0

    def do_HEAD(self) -> None:
        Unwell.asked += 1
        self.send_response(503 if Unwell.asked <= 2 else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        del format, args


def test_a_service_that_stumbles_is_asked_again() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Unwell) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            store = store_in(f"http://127.0.0.1:{server.server_port}")
            assert not store.exists("a")
            assert Unwell.asked == 3
        finally:
            server.shutdown()
            thread.join()


def test_a_bucket_that_is_not_there_is_named(minio_endpoint: str) -> None:
    store = store_in(minio_endpoint, bucket="nowhere")
    with pytest.raises(StoreError, match=r"^a: in s3://nowhere/.*NoSuchBucket"):
        store.put("a", b"1")


def test_a_large_file_is_sent_in_parts_and_once(minio_endpoint: str, tmp_path: Path) -> None:
    size = (64 << 20) + 1
    with (tmp_path / "large").open("wb") as file:
        file.truncate(size)
    store = store_in(minio_endpoint)
    store.put_file("large", tmp_path / "large")
    store.put_file("large", tmp_path / "large")
    store.get_file("large", tmp_path / "back")
    assert (tmp_path / "back").stat().st_size == size


def test_foreign_names_in_a_bucket_are_skipped(minio_endpoint: str) -> None:
    store = store_in(minio_endpoint)
    store.put("a", b"1")
    place = store.url.removeprefix("s3://runs/")
    client(minio_endpoint).put_object("runs", f"{place}/.gitattributes", BytesIO(b""), 0)
    assert list(store.list("")) == ["a"]


def test_another_place_of_a_service_has_keys_of_its_own(minio_endpoint: str) -> None:
    one = store_in(minio_endpoint)
    other = one.at("runs", f"test-{uuid.uuid4().hex}")
    one.put("a", b"1")
    other.put("b", b"2")
    assert (list(one.list("")), list(other.list(""))) == (["a"], ["b"])
    assert one.url != other.url


def test_two_prefixes_of_a_bucket_know_nothing_of_each_other(minio_endpoint: str) -> None:
    one, other = store_in(minio_endpoint), store_in(minio_endpoint)
    one.put("a", b"1")
    assert list(other.list("")) == []


@pytest.mark.parametrize("bucket", ["B", "a..b", "1.2.3.4"])
def test_an_invalid_bucket_is_a_store_error(bucket: str) -> None:
    store = S3Store(
        bucket=bucket,
        prefix="",
        credentials=StaticProvider("key", "secret"),
        endpoint="http://127.0.0.1:1",
        deadline_s=0.1,
    )
    for call in (lambda: store.get("a"), lambda: store.put("a", b""), lambda: store.delete("a")):
        with pytest.raises(StoreError, match="bucket name"):
            call()


def test_an_invalid_endpoint_is_a_store_error() -> None:
    with pytest.raises(StoreError, match=r"storage\.endpoint"):
        S3Store(
            bucket="runs",
            prefix="",
            credentials=StaticProvider("key", "secret"),
            endpoint="http://minio:90000",
        )
