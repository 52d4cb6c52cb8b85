"""An event loop with virtual time: whenever all tasks wait, its clock advances to the next timer.

It is not for threads or sockets: what they do takes no virtual time.

@virtual_time
async def test_an_hour_takes_no_time(): ...
"""

import asyncio
import functools
import selectors


class _Leaping(selectors.DefaultSelector):
    """A selector that never waits: it advances the clock by the timeout instead."""

    now = 0.0

    def select(self, timeout=None):
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("everybody waits, and nobody is ever due")
        self.now += 0.0 if ready else max(timeout, 0.0)
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self):
        self._leaping = _Leaping()
        super().__init__(self._leaping)

    def time(self):
        return self._leaping.now


def virtual_time(test):
    """Decorator: run the test on a loop with virtual time that starts at 0 s."""

    @functools.wraps(test)
    def run(**fixtures):
        with asyncio.Runner(loop_factory=_Loop) as runner:
            runner.run(test(**fixtures))

    return run


def now():
    """The virtual time of the running loop, in seconds."""
    return asyncio.get_running_loop().time()
