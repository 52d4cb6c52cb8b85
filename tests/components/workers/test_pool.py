"""Worker processes that cannot be had."""

from multiprocessing.context import ForkServerContext, ForkServerProcess

import pytest

from agentrl_components.errors import RunError
from agentrl_components.workers.pool import PendingWorkers


class Orphan(ForkServerProcess):
    """Asks a server that was killed while it began, to be its parent."""

    def start(self) -> None:
        raise EOFError("unexpected EOF")


class ServerDied(ForkServerContext):
    Process = Orphan


def test_a_server_of_workers_that_has_died_is_told_as_a_worker_that_has() -> None:
    with pytest.raises(RunError, match=r"^a worker process died .*run the same command again"):
        PendingWorkers(2, ServerDied())
