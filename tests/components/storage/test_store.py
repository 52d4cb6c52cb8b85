"""Every store keeps the same promises."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from minio_service import SECRET, store_in

from agentrl_components.errors import StoreError
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
        with pytest.raises(StoreError, match="not a valid key"):
            store.put(key, b"1")
        with pytest.raises(StoreError, match="not a valid key"):
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
