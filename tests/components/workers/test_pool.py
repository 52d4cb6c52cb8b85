"""Worker processes that fail to start or die."""

import os
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import ForkServerContext, ForkServerProcess

import psutil
import pytest
from corridor_jobs import GREEDY, jobs
from learner_bench import spec
from spawned_processes import spawned

from agentrl_components.errors import RunError
from agentrl_components.run.worker_group import WorkerGroup
from agentrl_components.spec import Environment
from agentrl_components.trajectory.record import Ending
from agentrl_components.workers.fork_server import fork_server_context, group_signals_blocked
from agentrl_components.workers.pool import PendingWorkers
from agentrl_components.workers.worker import Worker


class ProcessWithDeadServer(ForkServerProcess):
    """A process whose fork server was killed while starting."""

    def start(self) -> None:
        raise EOFError("unexpected EOF")


class DeadServerContext(ForkServerContext):
    Process = ProcessWithDeadServer


def test_a_dead_fork_server_is_reported_as_a_dead_worker() -> None:
    with pytest.raises(RunError, match=r"^a worker process died .*run the same command again"):
        PendingWorkers(2, DeadServerContext())


def test_a_broken_pool_shuts_down_although_its_workers_block_sigterm() -> None:
    with group_signals_blocked():
        executor = ProcessPoolExecutor(2, mp_context=fork_server_context())
        for started in [executor.submit(time.sleep, 0.5) for _ in range(2)]:
            started.result(timeout=60)
        waiting = executor.submit(time.sleep, 600)
        with pytest.raises(BrokenProcessPool):
            executor.submit(os._exit, 3).result(timeout=60)
    with pytest.raises(BrokenProcessPool):
        waiting.result(timeout=60)
    executor.shutdown()


def test_processes_with_environments_end_with_the_worker_processes(tmp_path) -> None:
    corridor = {"name": "corridor", "builtin": "corridor", "replicas": 0, "workers": 1}
    manifest = spec(compute={"workers": 2}).model_copy(
        update={"environments": (Environment.model_validate(corridor),)}
    )
    before = spawned()
    with WorkerGroup(manifest, tmp_path, note=print) as group:
        played = group.pool.map(Worker.play, [(jobs(1), GREEDY, 0)])
        ((episode,),) = played
        assert episode.ending is not Ending.LOST
        processes = spawned(but=before)
        assert processes
    assert psutil.wait_procs(processes, timeout=60)[1] == []
