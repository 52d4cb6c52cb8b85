"""Retries, deadlines and errors of `S3Store`."""

import uuid
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from free_ports import silent_port
from http_server import AnswerHandler, serving
from minio.credentials import StaticProvider
from minio_service import SECRET_KEY, client, store_in

from agentrl_components.errors import AbsentError, StoreError
from agentrl_components.storage.s3.store import S3Store


def test_an_unreachable_service_is_an_error_after_the_deadline() -> None:
    with silent_port() as port:
        store = store_in(f"http://127.0.0.1:{port}", deadline_s=0.5)
        with pytest.raises(StoreError, match=r"^a: in s3://runs/.*refused") as caught:
            store.put("a", b"1")
    assert SECRET_KEY not in str(caught.value)


class UnavailableTwice(AnswerHandler):
    """An S3 service without objects that answers the first two requests with an error. The path of
    a request contains the status and the code."""

    requests = 0

    def do_HEAD(self) -> None:
        UnavailableTwice.requests += 1
        status = int(urlsplit(self.path).path.split("/")[-2])
        self.send_response(status if UnavailableTwice.requests <= 2 else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        UnavailableTwice.requests += 1
        *_, status, code = urlsplit(self.path).path.split("/")
        status, code = (status, code) if UnavailableTwice.requests <= 2 else ("404", "NoSuchKey")
        body = f"<Error><Code>{code}</Code><Message>m</Message></Error>".encode()
        self.answer(int(status), body)


@pytest.mark.parametrize(
    "error",
    ["503/SlowDown", "503/XMinioWriteQuorum", "429/TooManyRequests", "500/Unknown", "408/Timeout"],
)
def test_errors_of_a_busy_service_are_retried(error: str) -> None:
    UnavailableTwice.requests = 0
    with serving(UnavailableTwice) as url, pytest.raises(AbsentError):
        store_in(url).get(error)
    assert UnavailableTwice.requests == 3


def test_a_503_response_without_a_body_is_retried() -> None:
    UnavailableTwice.requests = 0
    with serving(UnavailableTwice) as url:
        assert not store_in(url).exists("503/a")
    assert UnavailableTwice.requests == 3


class BusyOnce(BaseHTTPRequestHandler):
    """An S3 service that takes an upload in parts, and has no time for the second one at first."""

    parts: ClassVar[list[int]] = []
    """Numbers of the parts that were sent."""

    def do_HEAD(self) -> None:
        self.answer(404)

    def do_POST(self) -> None:
        self.read_body()
        begins = "uploads" in parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        kind = "InitiateMultipartUploadResult" if begins else "CompleteMultipartUploadResult"
        fields = "<Bucket>runs</Bucket><Key>a</Key><UploadId>u</UploadId><ETag>e</ETag>"
        self.answer(200, f"<{kind}>{fields}</{kind}>".encode())

    def do_PUT(self) -> None:
        self.read_body()
        number = int(parse_qs(urlsplit(self.path).query)["partNumber"][0])
        self.parts.append(number)
        self.answer(503 if number == 2 and self.parts.count(2) == 1 else 200)

    def read_body(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"] or 0))

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("ETag", "e")
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        del format, args


def test_a_part_of_an_upload_is_repeated_alone(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate((64 << 20) + 1)
    with serving(BusyOnce) as url:
        store_in(url).put_file("large", tmp_path / "large")
        assert sorted(BusyOnce.parts) == [1, 2, 2]


class FailsToJoin(BusyOnce):
    """An S3 service that takes all parts and then, in an answer with status 200, says that it could
    not join them."""

    parts: ClassVar[list[int]] = [2]  # so that no part has to wait
    failures = 0
    """How often it still fails."""

    def do_POST(self) -> None:
        joins = "uploadId" in parse_qs(urlsplit(self.path).query)
        if not joins or not FailsToJoin.failures:
            super().do_POST()
            return
        FailsToJoin.failures -= 1
        self.read_body()
        self.answer(200, b"<Error><Code>InternalError</Code><Message>later</Message></Error>")


@pytest.mark.parametrize("replaces", [False, True])
def test_an_upload_whose_parts_were_not_joined_is_repeated(replaces: bool) -> None:
    data = bytes((64 << 20) + 1)
    FailsToJoin.failures = 1
    with serving(FailsToJoin) as url:
        store = store_in(url)
        (store.replace if replaces else store.put)("large", data)
    assert FailsToJoin.failures == 0


def test_an_upload_whose_parts_are_never_joined_is_an_error() -> None:
    FailsToJoin.failures = 100
    with serving(FailsToJoin) as url, pytest.raises(StoreError, match="did not join the parts"):
        store_in(url, deadline_s=0.0).put("large", bytes((64 << 20) + 1))


def test_a_transfer_that_took_longer_than_the_deadline_is_tried_again() -> None:
    store = store_in("http://127.0.0.1:9", deadline_s=0.0)
    attempts = []

    def slow() -> None:
        attempts.append(len(attempts))
        if len(attempts) < 3:
            raise ConnectionError("the connection broke")

    store._request("a", slow)
    assert attempts == [0, 1, 2]


def test_a_missing_bucket_is_named(minio_endpoint: str) -> None:
    store = store_in(minio_endpoint, bucket="nowhere")
    with pytest.raises(StoreError, match=r"^a: in s3://nowhere/.*NoSuchBucket"):
        store.put("a", b"1")


def test_a_large_file_is_uploaded_in_parts_and_not_again(
    minio_endpoint: str, tmp_path: Path
) -> None:
    size = (64 << 20) + 1
    with (tmp_path / "large").open("wb") as file:
        file.truncate(size)
    store = store_in(minio_endpoint)
    store.put_file("large", tmp_path / "large")
    store.put_file("large", tmp_path / "large")
    store.get_file("large", tmp_path / "back")
    assert (tmp_path / "back").stat().st_size == size


def test_objects_whose_names_are_not_valid_keys_are_not_listed(minio_endpoint: str) -> None:
    store = store_in(minio_endpoint)
    store.put("a", b"1")
    place = store.url.removeprefix("s3://runs/")
    client(minio_endpoint).put_object("runs", f"{place}/.gitattributes", BytesIO(b""), 0)
    assert list(store.list("")) == ["a"]


def test_a_store_opened_at_another_prefix_has_its_own_keys(minio_endpoint: str) -> None:
    one = store_in(minio_endpoint)
    other = one.at("runs", f"test-{uuid.uuid4().hex}")
    one.put("a", b"1")
    other.put("b", b"2")
    assert (list(one.list("")), list(other.list(""))) == (["a"], ["b"])
    assert one.url != other.url


def test_prefixes_of_a_bucket_are_isolated(minio_endpoint: str) -> None:
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


class Deletes(AnswerHandler):
    """An S3 service that answers requests to delete many objects with `answers` in turn."""

    answers: ClassVar[list[tuple[int, bytes]]] = []
    requests: ClassVar[list[str]] = []
    """The method of each request, and the names that it deletes."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.requests.append(f"POST {body.count('<Key>')}")
        self.answer(*self.answers.pop(0))

    def do_DELETE(self) -> None:
        name = urlsplit(self.path).path.rpartition("/")[2]
        self.requests.append(f"DELETE {name}")
        self.answer(403 if name == "kept" else 204, DENIED if name == "kept" else b"")


DENIED = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
ALL_DELETED = b"<DeleteResult></DeleteResult>"


def delete_many(names: list[str], *answers: tuple[int, bytes]) -> list[str]:
    """Delete objects in a service that gives these answers. Returns its requests."""
    Deletes.answers[:], Deletes.requests[:] = answers, []
    with serving(Deletes) as url:
        store_in(url, deadline_s=0.0).delete_many(names)
    return list(Deletes.requests)


def test_a_thousand_objects_are_deleted_with_one_request() -> None:
    names = [f"checkpoints/{number}" for number in range(1500)]
    deleted = (200, ALL_DELETED)
    assert delete_many(names, deleted, deleted) == ["POST 1000", "POST 500"]


def test_a_service_without_the_request_for_many_is_asked_for_each_object() -> None:
    for answer in (
        (501, b"<Error><Code>NotImplemented</Code><Message>no</Message></Error>"),
        (400, b"<Error><Code>InvalidArgument</Code><Message>no</Message></Error>"),
        (200, b"an answer that is no XML"),
    ):
        assert delete_many(["a", "b"], answer) == ["POST 2", "DELETE a", "DELETE b"]


@pytest.mark.parametrize(
    "answer",
    [
        (503, b"<Error><Code>SlowDown</Code><Message>m</Message></Error>"),
        (200, b"<Error><Code>InternalError</Code><Message>later</Message></Error>"),
        (
            200,
            b"<DeleteResult><Error><Key>a</Key><Code>InternalError</Code></Error></DeleteResult>",
        ),
    ],
)
def test_a_deletion_of_many_that_may_succeed_later_is_repeated(answer: tuple[int, bytes]) -> None:
    assert delete_many(["a", "b"], answer, (200, ALL_DELETED)) == ["POST 2", "POST 2"]


def test_an_object_that_may_not_be_deleted_is_an_error_with_its_key() -> None:
    Deletes.requests[:] = []
    with serving(Deletes) as url:
        store = store_in(url, deadline_s=0.0)
        name = f"{store.url.removeprefix('s3://runs/')}/kept".encode()
        refused = b"<Error><Key>" + name + b"</Key><Code>AccessDenied</Code></Error>"
        Deletes.answers[:] = [
            (200, b"<DeleteResult>" + refused + b"</DeleteResult>"),
            (403, DENIED),
        ]
        for _ in range(2):
            with pytest.raises(StoreError, match=r"^kept: in s3://runs/.*: AccessDenied: no"):
                store.delete_many(["a", "kept"])
    assert Deletes.requests == ["POST 2", "DELETE kept", "POST 2", "DELETE a", "DELETE kept"]
