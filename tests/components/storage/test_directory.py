"""`DirectoryStore` writes files atomically: an interrupted write leaves no partial file."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl_components.errors import StoreError
from agentrl_components.storage.open import DirectoryStore


@given(st.dictionaries(st.from_regex(r"\A[a-z]{1,3}(/[0-9]{1,3})?\Z"), st.binary(max_size=8)))
def test_a_directory_store_lists_and_returns_what_was_put(
    tmp_path_factory: pytest.TempPathFactory, kept: dict
) -> None:
    kept = {
        key: data for key, data in kept.items() if not any(o.startswith(key + "/") for o in kept)
    }
    store = DirectoryStore(tmp_path_factory.mktemp("store"), durable=False)
    for key, data in kept.items():
        store.put(key, data)
    assert {key: store.get(key) for key in store.list("")} == kept


WRITER = """
import sys
from pathlib import Path
from agentrl_components.storage.open import DirectoryStore
store = DirectoryStore(Path(sys.argv[1]))
print("ready", flush=True)
for number in range(100000):
    store.put(f"n/{number:06d}", bytes([number % 256]) * 100000)
"""


@pytest.mark.parametrize("wanted", [1, 5, 20])
def test_a_killed_writer_leaves_only_complete_files(tmp_path: Path, wanted: int) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    with writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        last = tmp_path / f"n/{wanted - 1:06d}"
        while not last.exists() and writer.poll() is None:
            time.sleep(0.001)
        writer.send_signal(signal.SIGKILL)
    store = DirectoryStore(tmp_path)
    keys = list(store.list(""))
    assert len(keys) >= wanted
    assert keys == [f"n/{number:06d}" for number in range(len(keys))]
    for number, key in enumerate(keys):
        assert store.get(key) == bytes([number % 256]) * 100000


def test_partial_files_of_other_machines_are_removed_after_an_hour(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    store.put("a/b", b"1")
    for name, age_s in (("old", 4000), ("new", 10)):
        part = tmp_path / "a" / f".b.{name}.part"
        part.write_bytes(b"half")
        os.utime(part, (time.time() - age_s, time.time() - age_s))
    assert list(DirectoryStore(tmp_path).list("")) == ["a/b"]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [".b.new.part", "b"]


COPY = """
import sys
from pathlib import Path
from agentrl_components.storage.open import DirectoryStore
DirectoryStore(Path(sys.argv[1])).put_file("a/b", Path(sys.argv[2]))
"""


def test_opening_a_store_removes_the_partial_files_of_killed_writers(
    tmp_path: Path,
) -> None:
    folder, source = tmp_path / "store", tmp_path / "source"
    os.mkfifo(source)
    with subprocess.Popen([sys.executable, "-c", COPY, str(folder), str(source)]) as writer:
        with source.open("wb") as file:
            file.write(bytes(1 << 17))
            file.flush()
            DirectoryStore(folder)
            (part,) = (folder / "a").iterdir()
            writer.kill()
            writer.wait()
        assert part.exists()
        DirectoryStore(folder)
        assert not part.exists()


CONCURRENT_WRITER = """
import sys
from pathlib import Path
from agentrl_components.storage.open import DirectoryStore
ready = sys.stdin.readline()
for number in range(400):
    store = DirectoryStore(Path(sys.argv[1]), durable=False)
    store.put("deep/folder/same", b"1")
    store.put(f"deep/folder/{sys.argv[2]}", b"1")
    store.replace("deep/other/moving", sys.argv[2].encode())
    assert [key for key in store.list("deep") if key.endswith(sys.argv[2])]
    for key in ("folder/same", f"folder/{sys.argv[2]}", "other/moving"):
        store.delete(f"deep/{key}")
"""


def test_concurrent_writes_and_deletes_in_several_processes_do_not_fail(
    tmp_path: Path,
) -> None:
    """Each process removes empty folders into which the others are about to write."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", CONCURRENT_WRITER, str(tmp_path), name],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in "abc"
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    assert [writer.communicate()[1] for writer in writers] == ["", "", ""]
    assert list(tmp_path.iterdir()) == []


FILE_SIZE_LIMIT = """
import resource, signal, sys
from pathlib import Path
from agentrl_components.errors import StoreError
from agentrl_components.storage.open import DirectoryStore
store = DirectoryStore(Path(sys.argv[1]))
store.put("small", b"1")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    store.put("checkpoints/000001/model.safetensors", bytes(5000))
except StoreError as error:
    print(error)
print(list(store.list("")))
"""


def test_a_failed_write_leaves_no_partial_file_and_names_the_key(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FILE_SIZE_LIMIT, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    error, keys = done.stdout.splitlines()
    assert error.startswith("checkpoints/000001/model.safetensors: in file://")
    assert "File too large" in error
    assert keys == "['small']"
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["small"]


FULL_DISK = """
import sys
from pathlib import Path
from agentrl_components.errors import StoreError
from agentrl_components.storage.open import DirectoryStore
store = DirectoryStore(Path(sys.argv[1]))
store.put("small", b"1")
try:
    store.put("checkpoints/000001/model.safetensors", bytes(1 << 20))
except StoreError as error:
    print(error)
print(list(store.list("")), [path.name for path in Path(sys.argv[1]).rglob("*.part")])
store.put("checkpoints/000001/model.safetensors", b"fits")
"""


def test_a_full_disk_is_reported_and_smaller_files_can_still_be_written(tmp_path: Path) -> None:
    namespace = ["unshare", "--user", "--map-root-user", "--mount"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*namespace, "true"], check=False).returncode
    ):
        pytest.skip("mounting a small file system needs privileges here")
    done = subprocess.run(
        [
            *namespace,
            "sh",
            "-c",
            'mount -t tmpfs -o size=128k none "$1" && exec "$0" -c "$2" "$1"',
            sys.executable,
            str(tmp_path),
            FULL_DISK,
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    error, left = done.stdout.splitlines()
    assert error.startswith("checkpoints/000001/model.safetensors: in file://")
    assert "No space left on device; no partial file was kept" in error
    assert left == "['small'] []"


def test_a_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match=r"file/store"):
        DirectoryStore(tmp_path / "file" / "store")


def test_files_whose_names_are_not_valid_keys_are_not_listed(tmp_path: Path) -> None:
    (tmp_path / ".gitattributes").write_bytes(b"")
    (tmp_path / "read me").write_bytes(b"")
    store = DirectoryStore(tmp_path)
    store.put("a", b"1")
    assert list(store.list("")) == ["a"]
