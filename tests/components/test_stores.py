"""Every store keeps the same promises."""

import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

import pytest
from minio import Minio
from minio.credentials import StaticProvider

from agentrl_components.errors import StoreError
from agentrl_components.spec.storage import Storage
from agentrl_components.store import Store
from agentrl_components.stores import DirectoryStore, MemoryStore, open_store
from agentrl_components.stores.minio import MinioStore

SECRET = "a-secret-nobody-prints"


def minio_binary() -> str | None:
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


@pytest.fixture(scope="module")
def minio_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    binary = minio_binary()
    if binary is None:
        pytest.skip("no MinIO server here; `make services` builds one")
    address = f"127.0.0.1:{free_port()}"
    server = subprocess.Popen(
        [binary, "server", "--quiet", "--address", address, str(tmp_path_factory.mktemp("minio"))],
        env={
            **os.environ,
            "MINIO_ROOT_USER": "person",
            "MINIO_ROOT_PASSWORD": SECRET,
            "MINIO_BROWSER": "off",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 300
        while True:
            try:
                with urllib.request.urlopen(f"http://{address}/minio/health/ready", timeout=2):
                    break
            except OSError:
                assert time.monotonic() < deadline, "MinIO does not start"
                time.sleep(0.05)
        client = Minio(address, access_key="person", secret_key=SECRET, secure=False)
        client.make_bucket("runs")
        yield f"http://{address}"
    finally:
        server.kill()
        server.wait()


def minio_store(endpoint: str, deadline_s: float = 300.0, bucket: str = "runs") -> MinioStore:
    return MinioStore(
        bucket=bucket,
        prefix=f"test-{uuid.uuid4().hex}",
        endpoint=endpoint,
        region="us-east-1",
        credentials=StaticProvider("person", SECRET),
        deadline_s=deadline_s,
        timeout_s=60.0,
    )


@pytest.fixture(params=["memory", "directory", "minio"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "memory":
        return MemoryStore()
    if request.param == "directory":
        return DirectoryStore(tmp_path / "store")
    return minio_store(request.getfixturevalue("minio_endpoint"))


def test_what_was_put_is_what_one_gets(store: Store) -> None:
    store.put("phases/00/decision.json", b"advance")
    store.put("empty", b"")
    assert store.get("phases/00/decision.json") == b"advance"
    assert store.get("empty") == b""
    assert store.exists("empty")


def test_the_same_bytes_may_be_put_again_and_others_may_not(store: Store) -> None:
    store.put("a", b"1")
    store.put("a", b"1")
    with pytest.raises(StoreError, match=r"^a: already in .* with other bytes"):
        store.put("a", b"2")
    with pytest.raises(StoreError, match=r"^a: already in .* with other bytes"):
        store.put("a", b"12")
    assert store.get("a") == b"1"


def test_a_pointer_can_be_replaced(store: Store) -> None:
    store.replace("state.json", b"1")
    store.replace("state.json", b"22")
    assert store.get("state.json") == b"22"


def test_an_absent_key_is_named(store: Store, tmp_path: Path) -> None:
    assert not store.exists("not/here")
    with pytest.raises(StoreError, match=r"^not/here: not in "):
        store.get("not/here")
    with pytest.raises(StoreError, match=r"^not/here: not in "):
        store.get_file("not/here", tmp_path / "file")


def test_keys_are_listed_sorted_by_any_prefix(store: Store) -> None:
    for key in ["b/2", "b/10", "a", "b/1", "ba"]:
        store.put(key, b"")
    assert list(store.list("")) == ["a", "b/1", "b/10", "b/2", "ba"]
    assert list(store.list("b/")) == ["b/1", "b/10", "b/2"]
    assert list(store.list("b/1")) == ["b/1", "b/10"]
    assert list(store.list("nothing/")) == []


def test_a_deleted_key_is_gone_and_may_be_put_again(store: Store) -> None:
    store.put("a/b/c", b"1")
    store.delete("a/b/c")
    store.delete("a/b/c")
    assert not store.exists("a/b/c")
    assert list(store.list("")) == []
    store.put("a/b/c", b"2")
    assert store.get("a/b/c") == b"2"


def test_files_go_in_and_come_out(store: Store, tmp_path: Path) -> None:
    content = bytes(range(256)) * 4096
    (tmp_path / "in").write_bytes(content)
    store.put_file("weights", tmp_path / "in")
    store.put_file("weights", tmp_path / "in")
    store.put("weights", content)
    store.get_file("weights", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == content
    (tmp_path / "in").write_bytes(content[:-1] + b"x")
    with pytest.raises(StoreError, match=r"^weights: already in .* with other bytes"):
        store.put_file("weights", tmp_path / "in")


BAD_KEYS = ["", "/a", "a/", "a//b", "../a", "a/../b", ".", "a/.b", "a b", "a\n", "ä", "x" * 201]


@pytest.mark.parametrize("key", BAD_KEYS)
def test_a_key_that_could_mean_something_else_is_refused(key: str, tmp_path: Path) -> None:
    for store in (MemoryStore(), DirectoryStore(tmp_path / "store")):
        with pytest.raises(StoreError, match="not a key"):
            store.put(key, b"1")
        with pytest.raises(StoreError, match="not a key"):
            store.get(key)


def test_putting_and_deleting_a_key_side_by_side_disturbs_nobody(store: Store) -> None:
    def clash(_: int) -> None:
        for _ in range(40):
            store.put("a/same", b"1")
            store.delete("a/same")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(clash, range(4)))
    assert list(store.list("")) == []


def test_of_many_writers_of_a_key_one_wins(store: Store) -> None:
    refused: list[str] = []

    def write(number: int) -> None:
        try:
            store.put("a", str(number).encode() * 1000)
        except StoreError as error:
            refused.append(str(error))

    writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(refused) == 7
    assert len(set(store.get("a"))) == 1


def test_a_manifest_names_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_store(Storage(), tmp_path / "run").url == (tmp_path / "run").as_uri()
    named = open_store(Storage(url=f"file://{tmp_path}/a%20b"), tmp_path / "run")
    assert named.url == (tmp_path / "a b").as_uri()
    monkeypatch.setenv("MY_KEY", "person")
    monkeypatch.delenv("MY_SECRET", raising=False)
    storage = Storage(
        url="s3://bucket/team/run", access_key_env="MY_KEY", secret_key_env="MY_SECRET"
    )
    with pytest.raises(StoreError, match="MY_SECRET not set"):
        open_store(storage, tmp_path)
    monkeypatch.setenv("MY_SECRET", SECRET)
    assert open_store(storage, tmp_path).url == "s3://bucket/team/run"


def test_a_service_that_is_down_is_given_up_after_the_deadline() -> None:
    store = minio_store(f"http://127.0.0.1:{free_port()}", deadline_s=0.5)
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
            store = minio_store(f"http://127.0.0.1:{server.server_port}")
            assert not store.exists("a")
            assert Unwell.asked == 3
        finally:
            server.shutdown()
            thread.join()


def test_a_bucket_that_is_not_there_is_named(minio_endpoint: str) -> None:
    store = minio_store(minio_endpoint, bucket="nowhere")
    with pytest.raises(StoreError, match=r"^a: in s3://nowhere/.*NoSuchBucket"):
        store.put("a", b"1")


def test_a_large_file_is_sent_in_parts_and_once(minio_endpoint: str, tmp_path: Path) -> None:
    size = (64 << 20) + 1
    with (tmp_path / "large").open("wb") as file:
        file.truncate(size)
    store = minio_store(minio_endpoint)
    store.put_file("large", tmp_path / "large")
    store.put_file("large", tmp_path / "large")
    store.get_file("large", tmp_path / "back")
    assert (tmp_path / "back").stat().st_size == size


def test_foreign_names_in_a_store_are_skipped(minio_endpoint: str, tmp_path: Path) -> None:
    (tmp_path / ".gitattributes").write_bytes(b"")
    (tmp_path / "read me").write_bytes(b"")
    folder = DirectoryStore(tmp_path)
    folder.put("a", b"1")
    assert list(folder.list("")) == ["a"]
    bucket = minio_store(minio_endpoint)
    bucket.put("a", b"1")
    client = Minio(
        minio_endpoint.removeprefix("http://"), access_key="person", secret_key=SECRET, secure=False
    )
    place = bucket.url.removeprefix("s3://runs/")
    client.put_object("runs", f"{place}/.gitattributes", BytesIO(b""), 0)
    assert list(bucket.list("")) == ["a"]


def test_another_place_of_a_service_has_keys_of_its_own(minio_endpoint: str) -> None:
    one = minio_store(minio_endpoint)
    other = one.at("runs", f"test-{uuid.uuid4().hex}")
    one.put("a", b"1")
    other.put("b", b"2")
    assert (list(one.list("")), list(other.list(""))) == (["a"], ["b"])
    assert one.url != other.url


def test_two_prefixes_of_a_bucket_know_nothing_of_each_other(minio_endpoint: str) -> None:
    one, other = minio_store(minio_endpoint), minio_store(minio_endpoint)
    one.put("a", b"1")
    assert list(other.list("")) == []
