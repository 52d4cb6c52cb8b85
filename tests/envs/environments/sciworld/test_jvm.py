"""A Java process: what is left of it when it dies."""

from __future__ import annotations

import gc
import os
import signal

import pytest

from agentrl_envs.environments.sciworld.jvm import Jvm
from agentrl_envs.environments.sciworld.jvm_pool import shared_pool
from agentrl_envs.environments.sciworld.options import SciWorldOptions
from agentrl_envs.environments.sciworld.tasks import SciWorldTasks
from agentrl_envs.errors import SessionError

pytestmark = pytest.mark.usefixtures("java")


@pytest.fixture
def jvm() -> Jvm:
    return Jvm(worlds=1)


def open_sockets() -> int:
    """The number of sockets that this process has open."""
    folder = "/proc/self/fd"
    paths = (f"{folder}/{number}" for number in os.listdir(folder))
    return sum(os.readlink(path).startswith("socket:") for path in paths if os.path.lexists(path))


def test_a_call_into_a_dead_jvm_leaves_no_socket_open_while_its_error_is_kept(jvm: Jvm):
    before = open_sockets()
    simulator = jvm.simulator()
    os.kill(jvm.pid, signal.SIGKILL)
    with pytest.raises(SessionError, match="has died") as error, jvm.calls():
        simulator.load("boil", 0, "", False)
    assert open_sockets() == before
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
    assert not caplog.messages


def test_a_jvm_starts_before_there_is_a_session_and_only_once():
    tasks, pool = SciWorldTasks(SciWorldOptions(worlds=3)), shared_pool(jvms=1, worlds=3)
    try:
        tasks.start_programs()
        (pid,) = pool.pids
        tasks.start_programs()
        assert pool.pids == (pid,)
    finally:
        pool.close()


@pytest.mark.parametrize("worlds", [1, 64, 256])
def test_what_lives_long_has_room_for_all_worlds(worlds: int):
    jvm = Jvm(worlds)
    with jvm.calls():
        pools = jvm._gateway.jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
        most = {pool.getName(): pool.getUsage().getMax() for pool in pools}
    jvm.kill()
    assert most["Tenured Gen"] >= worlds * 12 * 2**20
