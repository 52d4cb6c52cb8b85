"""Forward a port of this machine to a Service, across replacements of its pod."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from types import TracebackType

from free_ports import free_ports


class Forward:
    """`kubectl port-forward`, restarted whenever it exits, which it does with its pod."""

    def __init__(self, kubectl: tuple[str, ...], service: str, port: int) -> None:
        (self._port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self._port}"
        self._argv = [*kubectl, "port-forward", f"service/{service}", f"{self._port}:{port}"]
        self._closed = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper = threading.Thread(target=self._keep, daemon=True)

    def __enter__(self) -> str:
        self._keeper.start()
        return self.url

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed.set()
        if self._process is not None:
            self._process.terminate()
        self._keeper.join(timeout=10)

    def answers(self, within_s: float) -> bool:
        """Whether the port accepts a connection within the time limit."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
            except OSError:
                time.sleep(0.2)
            else:
                return True
        return False

    def _keep(self) -> None:
        while not self._closed.is_set():
            self._process = subprocess.Popen(
                self._argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            if self._closed.is_set():
                self._process.terminate()
            self._process.wait()
            self._closed.wait(0.5)
