"""Environment server whose calls take a fixed time, and whose episodes are of skewed lengths.

    python benchmarks/workload/latency.py MILLISECONDS SHORT LONG ONE_IN

Prints its URL, and serves until it is ended. Accepts any reply. The calls of sessions do not block
one another, and a task says how many turns an episode takes: `SHORT`, or `LONG` for one task in
`ONE_IN`.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from agentrl_envs.env import Observation, Split, Step, Task, content_id
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.run import running

NAME = "rooms"


class Rooms:
    """Task set without an end."""

    name = NAME

    def __init__(self, short: int, long: int, one_in: int) -> None:
        self._short, self._long, self._one_in = short, long, one_in

    def instructions(self) -> str:
        return "explore"

    def vocabulary(self) -> None:
        return None

    def size(self, split: Split) -> None:
        del split

    def task(self, split: Split, index: int) -> Task:
        """One of `one_in` consecutive tasks is long."""
        turns = self._long if index % self._one_in == self._one_in - 1 else self._short
        payload = {"split": split, "number": index, "turns": turns}
        return Task(id=content_id(NAME, payload), category=str(turns), payload=payload)

    def environment(self) -> RoomSession:
        return RoomSession()


class RoomSession:
    """One session. The score varies with the replies, so that groups have a learning signal."""

    def __init__(self) -> None:
        self._turns = self._left = 0

    def reset(self, task: Task) -> Observation:
        self._turns = self._left = int(task.payload["turns"])
        return Observation(text=f"You are in room {task.payload['number']}.")

    def step(self, action: str) -> Step:
        self._left -= 1
        over = self._left <= 0
        score = sum(map(ord, action)) % 2 / self._turns
        return Step(
            observation=Observation(text="You are in a room. There is a key here."),
            reward=score,
            terminated=over,
            truncated=False,
            wellformed=True,
            success=over and score > 0,
            raw_score=score,
        )

    def close(self) -> None:
        """Nothing is held."""


class LateExecutor(ThreadExecutor):
    """Answers `latency_s` seconds after the call."""

    def __init__(self, tasks: Rooms, latency_s: float) -> None:
        super().__init__(tasks)
        self._latency_s = latency_s

    async def reset(self, session: str, task: Task) -> Observation:
        await asyncio.sleep(self._latency_s)
        return await super().reset(session, task)

    async def step(self, session: str, action: str) -> Step:
        await asyncio.sleep(self._latency_s)
        return await super().step(session, action)


@contextmanager
def served(latency_ms: float, short: int, long: int, one_in: int) -> Iterator[str]:
    """Run a server process. Yields its URL."""
    flags = [str(value) for value in (latency_ms, short, long, one_in)]
    process = subprocess.Popen(
        [sys.executable, __file__, *flags], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(timeout=60)


def main() -> None:
    """Serve until the process is ended."""
    latency_ms, short, long, one_in = sys.argv[1:]
    tasks = Rooms(int(short), int(long), int(one_in))
    executor = LateExecutor(tasks, float(latency_ms) / 1e3)
    with running(create_app(tasks, executor, ServerOptions(capacity=1024))) as url:
        print(url, flush=True)
        while True:
            time.sleep(60)


if __name__ == "__main__":
    main()
