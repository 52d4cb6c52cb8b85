"""A loop on which nobody waits: once everybody would, its clock leaps to whoever is due next.
Not for threads or sockets: what they do takes none of its time.

@timeless
async def test_it_is_over_in_an_hour(): ...
"""

import asyncio
import functools
import selectors


class _Leaping(selectors.DefaultSelector):
    """Whoever asks it to wait hears at once that the time has passed."""

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


def timeless(test):
    """The test runs on such a loop, from the second 0 of its clock on."""

    @functools.wraps(test)
    def run(**fixtures):
        with asyncio.Runner(loop_factory=_Loop) as runner:
            runner.run(test(**fixtures))

    return run


def now():
    """By the clock of the loop that runs."""
    return asyncio.get_running_loop().time()
