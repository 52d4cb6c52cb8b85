"""What SIGINT, SIGTERM and SIGHUP do to a run on this machine.

The first signal stops a run before its next evaluation, warm start or iteration, after a checkpoint
that covers all iterations; only the work of a warm start is lost that has begun. While actors are
opened, or wait for room on a Ray cluster, it stops the run within seconds. The next one stops
it at once: processes that may hang in an environment are killed, and so is this process
if it does not end soon. A run that is killed is resumed from its last checkpoint.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from agentrl_components.run.progress import ProgressView

INTERRUPTED = "interrupted."
TO_RESUME = f"{INTERRUPTED} Run the same command again to resume from the last checkpoint."
TO_CONTINUE = f"{INTERRUPTED} Run the same command again to play the episodes that are missing."
EXIT_CODE = 130

REASONS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "the terminal was closed",
}
"""Why a run stops, by the signal."""
STOPPING = "stopping after the current step; press Ctrl-C again to stop at once"

SAME_SIGTERM_S = 1.0
"""A SIGTERM that arrives so soon after another one has the same cause."""
UNWINDING_S = 3.0
"""Seconds that this process is given to close what it has open when it is stopped at once."""
LAST_OUTPUT_S = 1.0
"""Seconds that the last output of a process may take. A stopped terminal takes none for ever."""


@contextmanager
def handle_signals(
    deadline_s: int | None,
    view: ProgressView,
    worked_s: float = 0.0,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Callable[[], str | None]]:
    """Handle SIGINT, SIGTERM and SIGHUP, and watch the deadline, of which earlier starts of the run
    have used `worked_s` seconds.

    Yields a function that returns the reason to stop, or None. The run asks it where it can be
    resumed, as said above. SIGHUP, of a terminal that is closed, is handled unless it is ignored,
    as by `nohup`. A second signal raises `KeyboardInterrupt`, as
    `Interruption` says; a SIGTERM soon after the first is none."""
    reasons: list[str] = []
    notes: list[threading.Thread] = []
    started = clock()
    interruption, echoes = Interruption(TO_RESUME), _Echoes(clock)

    def on_signal(number: int, frame: FrameType | None) -> None:
        del frame
        if echoes.has(number):
            return
        if reasons:
            interruption.begin()
        reasons.append(REASONS[signal.Signals(number)])
        # Not in the handler: the step that it interrupts may hold the lock of stdout, and a stopped
        # terminal or a full pipe would halt the run.
        shown = threading.Thread(target=view.note, args=(STOPPING,), daemon=True)
        shown.start()
        notes.append(shown)

    def should_stop() -> str | None:
        if deadline_s is not None and worked_s + clock() - started > deadline_s:
            return f"spec.activeDeadlineSeconds ({deadline_s}) has passed; to go on, raise it"
        return reasons[0] if reasons else None

    handled = [one for one in REASONS if signal.getsignal(one) != signal.SIG_IGN]
    with _handler(on_signal, *handled), interruption.replacing_errors():
        try:
            yield should_stop
        finally:
            for shown in notes:
                shown.join(LAST_OUTPUT_S)


class _Echoes:
    """Recognises signals that only repeat an earlier one, which nobody sent to have the run stop at
    once."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._first = True
        self._terminated: float | None = None

    def has(self, number: int) -> bool:
        """Whether signal `number`, which has arrived now, is one. To be called for each signal."""
        first, self._first = self._first, False
        if number == signal.SIGHUP:
            return not first  # the kernel and the shell send one each, systemd one after SIGTERM
        if number != signal.SIGTERM:
            return False
        before, now = self._terminated, self._clock()
        if before is not None and now - before < SAME_SIGTERM_S:
            return True  # `timeout` sends one to the process and one to its group
        self._terminated = now
        return False


@contextmanager
def interrupt_at_once(message: str) -> Iterator[None]:
    """Have SIGINT raise `KeyboardInterrupt` with `message` in the block, as `Interruption` says:
    for work that keeps no state that a signal could damage."""
    interruption = Interruption(message)
    with (
        _handler(lambda number, frame: interruption.begin(), signal.SIGINT),
        interruption.replacing_errors(),
    ):
        yield


class Interruption:
    """Stops this process at once, although an environment in it, or in a process that it started,
    may hang."""

    def __init__(self, message: str) -> None:
        """`message`: what the user is told in the end, as the argument of `KeyboardInterrupt`."""
        self._message = message
        self._overdue: threading.Timer | None = None

    def begin(self) -> NoReturn:
        """Kill the processes that this one started, and raise `KeyboardInterrupt`. If the block
        does not end soon, or if called again, exit."""
        if self._overdue is not None:
            _exit(self._message)
        self._overdue = threading.Timer(UNWINDING_S, _exit, (self._message,))
        self._overdue.daemon = True
        self._overdue.start()
        # Episodes that fail because their processes are killed are not reported one by one.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        for process in multiprocessing.active_children():
            with suppress(ValueError):  # it is closed
                process.kill()
        raise KeyboardInterrupt(self._message)

    @contextmanager
    def replacing_errors(self) -> Iterator[None]:
        """Once it has begun, raise `KeyboardInterrupt` in place of any error of the block."""
        try:
            yield
        except BaseException:  # killed processes also cause asyncio's CancelledError
            if self._overdue is not None:
                raise KeyboardInterrupt(self._message) from None
            raise
        finally:
            if self._overdue is not None:
                self._overdue.cancel()


def exit_interrupted(message: str = INTERRUPTED) -> NoReturn:
    """Exit with `message`, without waiting for threads that hang in a call."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    others = [one for one in threading.enumerate() if not one.daemon]
    if len(others) > 1:
        _exit(message)
    with suppress(OSError):
        print(message, file=sys.stderr)
    sys.exit(EXIT_CODE)


def _exit(message: str) -> NoReturn:
    """Exit now: `sys.exit` would wait for threads and run other handlers first. Whether the message
    can be written does not matter."""
    last = threading.Thread(target=_write_last, args=(message,), daemon=True)
    with suppress(RuntimeError):  # the interpreter starts no thread while it shuts down
        last.start()
        last.join(LAST_OUTPUT_S)
    os._exit(EXIT_CODE)


def _write_last(message: str) -> None:
    """Write `message` to stderr, and what stdout has not written yet. In a thread of its own: the
    thread that a signal interrupted may hold the lock of stdout."""
    with suppress(OSError):
        os.write(2, f"{message}\n".encode())
    with suppress(OSError, ValueError):
        sys.stdout.flush()


@contextmanager
def _handler(
    handler: Callable[[int, FrameType | None], None], *numbers: signal.Signals
) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, known in before.items():
            signal.signal(number, known)
