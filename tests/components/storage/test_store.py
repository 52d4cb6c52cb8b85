"""The contract of `Store`, tested on every implementation."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from minio_service import SECRET_KEY, store_in

from agentrl_components.errors import AbsentError, StoreError
from agentrl_components.spec.fields.storage import Storage
from agentrl_components.storage.open import DirectoryStore, MemoryStore, open_store
from agentrl_components.storage.store import Store


@pytest.fixture(params=["memory", "directory", "minio"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "memory":
        return MemoryStore()
    if request.param == "directory":
        return DirectoryStore(tmp_path / "store")
    return store_in(request.getfixturevalue("minio_endpoint"))


def test_get_returns_the_bytes_that_were_put(store: Store) -> None:
    store.put("phases/00/decision.json", b"advance")
    store.put("empty", b"")
    assert store.get("phases/00/decision.json") == b"advance"
    assert store.get("empty") == b""
    assert store.exists("empty")


def test_put_accepts_the_same_bytes_again_and_rejects_others(store: Store) -> None:
    store.put("a", b"1")
    store.put("a", b"1")
    with pytest.raises(StoreError, match=r"^a: already in .* with other bytes"):
        store.put("a", b"2")
    with pytest.raises(StoreError, match=r"^a: already in .* with other bytes"):
        store.put("a", b"12")
    assert store.get("a") == b"1"


def test_replace_overwrites_a_key(store: Store) -> None:
    store.replace("state.json", b"1")
    store.replace("state.json", b"22")
    assert store.get("state.json") == b"22"


def test_a_missing_key_is_named(store: Store, tmp_path: Path) -> None:
    assert not store.exists("not/here")
    with pytest.raises(StoreError, match=r"^not/here: not in "):
        store.get("not/here")
    with pytest.raises(StoreError, match=r"^not/here: not in "):
        store.get_file("not/here", tmp_path / "file")


def test_list_returns_sorted_keys_with_a_prefix(store: Store) -> None:
    for key in ["b/2", "b/10", "a", "b/1", "ba"]:
        store.put(key, b"")
    assert list(store.list("")) == ["a", "b/1", "b/10", "b/2", "ba"]
    assert list(store.list("b/")) == ["b/1", "b/10", "b/2"]
    assert list(store.list("b/1")) == ["b/1", "b/10"]
    assert list(store.list("nothing/")) == []


def test_a_deleted_key_can_be_put_again(store: Store) -> None:
    store.put("a/b/c", b"1")
    store.delete("a/b/c")
    store.delete("a/b/c")
    assert not store.exists("a/b/c")
    assert list(store.list("")) == []
    store.put("a/b/c", b"2")
    assert store.get("a/b/c") == b"2"


def test_many_keys_are_deleted_and_missing_ones_skipped(store: Store) -> None:
    names = [f"a/{number}" for number in range(5)]
    for name in names:
        store.put(name, b"1")
    store.delete_many([*names[1:], "not/here"])
    assert list(store.list("")) == ["a/0"]
    store.delete_many([])
    store.delete_many(["a/0"])
    assert list(store.list("")) == []


def test_the_start_of_a_key_is_read_without_the_rest(store: Store) -> None:
    store.put("weights", b"header and tensors")
    assert store.get_start("weights", 6) == b"header"
    assert store.get_start("weights", 100) == b"header and tensors"
    with pytest.raises(AbsentError, match=r"^not/here: not in "):
        store.get_start("not/here", 6)


def test_put_file_and_get_file_transfer_files(store: Store, tmp_path: Path) -> None:
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
def test_an_invalid_key_is_rejected(key: str, tmp_path: Path) -> None:
    for store in (MemoryStore(), DirectoryStore(tmp_path / "store")):
        with pytest.raises(StoreError, match="not a valid key"):
            store.put(key, b"1")
        with pytest.raises(StoreError, match="not a valid key"):
            store.get(key)


def test_concurrent_put_and_delete_of_a_key_do_not_fail(store: Store) -> None:
    def put_and_delete(_: int) -> None:
        for _ in range(40):
            store.put("a/same", b"1")
            store.delete("a/same")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(put_and_delete, range(4)))
    assert list(store.list("")) == []


def test_exactly_one_of_several_concurrent_writers_succeeds(store: Store) -> None:
    rejected: list[str] = []

    def write(number: int) -> None:
        try:
            store.put("a", str(number).encode() * 1000)
        except StoreError as error:
            rejected.append(str(error))

    writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(rejected) == 7
    assert len(set(store.get("a"))) == 1


def test_open_store_opens_the_store_named_in_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    monkeypatch.setenv("MY_SECRET", SECRET_KEY)
    assert open_store(storage, tmp_path).url == "s3://bucket/team/run"
