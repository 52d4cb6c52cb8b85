"""A scratch folder goes with its process, however that ends."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from agentrl_components.storage.scratch import PREFIX, ScratchFolder

OWNER = """
import os, sys, time
from agentrl_components.storage.scratch import ScratchFolder
scratch = ScratchFolder()
(scratch.path / "model").mkdir()
(scratch.path / "model/weights").write_bytes(b"1234")
if len(sys.argv) > 1 and os.fork():
    os._exit(0)  # as when a process is killed and those that it forked are not
print(scratch.path, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine's temporary folder, in this process and in those that it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def owner(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process with a scratch folder."""
    command = [sys.executable, "-c", OWNER, *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        try:
            yield process, folder
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_the_folder_of_a_killed_process_is_removed_by_the_next_one() -> None:
    with owner() as (process, folder):
        process.kill()
        process.wait()
        assert (folder / "model/weights").exists()
        with ScratchFolder():
            assert not folder.exists()


def test_the_folder_of_a_living_process_stays() -> None:
    with owner() as (_, folder), ScratchFolder():
        assert (folder / "model/weights").read_bytes() == b"1234"


def test_the_folder_stays_while_a_forked_process_has_it() -> None:
    with owner("forks") as (process, folder):
        process.wait()
        with ScratchFolder():
            assert (folder / "model/weights").exists()


def test_a_forked_process_that_closes_the_folder_leaves_it() -> None:
    scratch = ScratchFolder()
    child = os.fork()
    if child == 0:
        scratch.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert scratch.path.is_dir()
    scratch.close()
    assert not scratch.path.exists()


def test_folders_and_links_of_others_stay(temporary: Path) -> None:
    other_machine = "agentrl-000000-abcdefgh"
    own = [f"{PREFIX}notes-of-mine", f".{PREFIX}abcdefgh", "agentrl-models-0", "elsewhere"]
    names = [*own, other_machine]
    for name in names:
        (temporary / name).mkdir()
    (temporary / f"{PREFIX}abcdefgh").symlink_to(temporary / "elsewhere")
    with ScratchFolder():
        assert all((temporary / name).is_dir() for name in names)


def open_in(folder: Path) -> list[str]:
    """What this process has open in a folder, also if it has been removed."""
    paths: list[str] = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # another thread closed it meanwhile
            paths.append(os.readlink(descriptor))
    return [path for path in paths if path.startswith(f"{folder}/")]


def test_a_scratch_folder_ends_with_its_block(temporary: Path) -> None:
    with ScratchFolder() as folder:
        assert folder.is_dir()
        assert folder.stat().st_mode & 0o777 == 0o700
        assert open_in(temporary) == [str(folder)]
    assert not list(temporary.iterdir())
    assert not open_in(temporary)
