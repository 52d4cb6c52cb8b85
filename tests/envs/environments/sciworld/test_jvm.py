"""A Java process: what is left of it when it dies."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import threading
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from scienceworld.constants import JAR_PATH

from agentrl_envs.environments.sciworld.jvm import OLDEST_JAVA, Jvm
from agentrl_envs.environments.sciworld.jvm_pool import JvmPool, shared_pool
from agentrl_envs.environments.sciworld.options import SciWorldOptions
from agentrl_envs.environments.sciworld.tasks import SciWorldTasks
from agentrl_envs.errors import CapacityError, SessionError

pytestmark = pytest.mark.usefixtures("java")


@pytest.fixture
def jvm() -> Jvm:
    return Jvm(worlds=1)


def open_sockets() -> set[str]:
    """The sockets that this process has open, by number of the kernel."""
    opened: set[str] = set()
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # another thread closed it meanwhile
            opened.add(os.readlink(path))
    return {name for name in opened if name.startswith("socket:")}


def test_a_call_into_a_dead_jvm_leaves_no_socket_open_while_its_error_is_kept(jvm: Jvm):
    before = open_sockets()
    simulator = jvm.simulator()
    os.kill(jvm.pid, signal.SIGKILL)
    with pytest.raises(SessionError, match="has died") as error, jvm.calls():
        simulator.load("boil", 0, "", False)
    assert not open_sockets() - before  # those of other tests may have been closed meanwhile
    assert error.value.__cause__ is not None


def test_an_object_of_a_dead_jvm_is_freed_without_a_new_connection(
    jvm: Jvm, caplog: pytest.LogCaptureFixture
):
    simulator = jvm.simulator()
    jvm.kill()
    gc.collect()  # the objects of other tests
    caplog.set_level("DEBUG", logger="py4j")
    del simulator
    gc.collect()
    told = [one for one in caplog.records if one.name.startswith("py4j")]
    own = [one for one in told if one.thread == threading.get_ident()]
    assert not own  # other threads may free objects of other tests meanwhile


def test_a_jvm_starts_before_there_is_a_session_and_only_once():
    tasks, pool = SciWorldTasks(SciWorldOptions(worlds=3)), shared_pool(jvms=1, worlds=3)
    try:
        tasks.start_programs()
        (pid,) = pool.pids
        tasks.start_programs()
        assert pool.pids == (pid,)
    finally:
        pool.close()


def java_that(folder: Path, script: str) -> str:
    """A folder for PATH whose `java` notes that it was called and runs the script."""
    program = folder / "java"
    program.write_text(f'#!/bin/sh\necho call >> "{folder}/calls"\n{script}\n')
    program.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("says", "version"), [('java version "1.7.0_80"', 7), ('openjdk version "6-internal"', 6)]
)
def test_a_java_that_is_too_old_is_an_error_that_names_both_versions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str, version: int
):
    monkeypatch.setenv("PATH", java_that(tmp_path, f"echo '{says}' >&2"))
    message = (
        f"sciworld: {tmp_path}/java is Java {version}, and ScienceWorld needs Java 8 or newer; "
        "apt-get install openjdk-17-jre-headless"
    )
    with pytest.raises(SessionError, match=message):
        Jvm(worlds=1)


@pytest.mark.parametrize("says", ['openjdk version "1.8.0_392"', 'java version "21" 2023-09-19'])
def test_a_java_is_asked_for_its_version_only_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str
):
    java = shutil.which("java")
    start = f"[ $1 = -version ] && echo '{says}' >&2 && exit\nexec {java} \"$@\""
    monkeypatch.setenv("PATH", java_that(tmp_path, start))
    for _ in range(2):
        Jvm(worlds=1).kill()
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 3  # one for the version, two JVMs


def test_a_java_that_did_not_run_is_asked_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", java_that(tmp_path, "echo 'no memory' >&2; exit 1"))
    with pytest.raises(SessionError, match=r"does not run \(no memory\)"):
        Jvm(worlds=1)
    java_that(tmp_path, "echo 'java version \"1.7.0\"' >&2")
    with pytest.raises(SessionError, match="is Java 7"):
        Jvm(worlds=1)


def test_the_oldest_java_is_the_one_that_the_jar_was_compiled_for():
    with zipfile.ZipFile(JAR_PATH) as jar:
        names = [name for name in jar.namelist() if name.endswith(".class")]
        newest = max(int.from_bytes(jar.read(name)[6:8], "big") for name in names)
    assert newest - 44 == OLDEST_JAVA  # version 45 of the class file format is Java 1


@pytest.mark.parametrize("worlds", [1, 64, 256])
def test_what_lives_long_has_room_for_all_worlds(worlds: int):
    jvm = Jvm(worlds)
    with jvm.calls():
        pools = jvm._gateway.jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
        most = {pool.getName(): pool.getUsage().getMax() for pool in pools}
    jvm.kill()
    assert most["Tenured Gen"] >= worlds * 12 * 2**20


def test_a_world_that_was_released_gives_no_turn_and_one_place_back():
    """Regression: a step of a cancelled episode acted in the simulator of the next session."""
    pool = JvmPool(jvms=1, worlds=2)
    try:
        first, second = pool.lease(), pool.lease()
        first.release()
        first.release()
        with pytest.raises(SessionError, match="was closed"), first.turn():
            pass
        third = pool.lease()
        with pytest.raises(CapacityError):
            pool.lease()
        for world in (second, third):
            with world.turn() as simulator:
                assert simulator is not None
    finally:
        pool.close()
