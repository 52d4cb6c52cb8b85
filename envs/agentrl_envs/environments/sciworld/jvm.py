"""One Java process with ScienceWorld's simulators, and the calls into it.

ScienceWorld is not thread-safe, also between simulators of one JVM: eight threads without a lock
changed the results of five of eight worlds. All calls into a JVM are therefore made under its lock.
A call goes through py4j's socket and releases Python's interpreter lock.

The JVM reads its standard input and exits at its end, so it dies with this process however that
ends.
"""

from __future__ import annotations

import logging
import re
import subprocess
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError, Py4JJavaError
from scienceworld.constants import JAR_PATH

from agentrl_envs.errors import SessionError
from agentrl_envs.needs import JAVA

BASE_HEAP_MB = 256
"""Heap of a JVM without a world: classes, and what a load allocates for a moment."""
WORLD_HEAP_MB = 14
"""Heap of one loaded world; 9 to 11 MB were measured."""
YOUNG_HEAP_MB = 96
"""Part of the heap for new objects. The default is a third, and 64 worlds, which live long, do not
fit the rest: then nearly every load stopped the JVM for a full collection."""
FLAGS = (
    f"-Xmn{YOUNG_HEAP_MB}m",
    "-XX:+UseSerialGC",  # one call at a time: parallel collectors only add memory
    "-XX:+ExitOnOutOfMemoryError",  # a JVM that is full is replaced, never half alive
    "-XX:-UsePerfData",
)
TURN_TIMEOUT_S = 30.0
"""Seconds after which the calls of one turn count as hanging, and the JVM is killed. They take
0.3 s at most, on a busy machine a few seconds."""
LOOK_S = 1.0
"""Seconds between two looks of those that wait for the lock at the turn that has it."""
EXIT_TIMEOUT_S = 5.0
OLDEST_JAVA = 8
"""The classes in ScienceWorld's jar have version 52 of the class file format, that of Java 8. An
older Java starts, and fails at the first call, because those of py4j are older."""
VERSION_TIMEOUT_S = 30.0

# py4j logs a traceback for each call into a JVM that has died; the error says it once.
logging.getLogger("py4j").setLevel(logging.CRITICAL)

FIX = f"check that `java -version` says {OLDEST_JAVA} or newer; {JAVA.fix}"


def _java() -> str:
    """Path of Java. Raises `SessionError` if it is not installed, does not run or is too old."""
    path = JAVA.path()
    if path is None:
        raise SessionError(f"sciworld: {JAVA.name} is not installed; {JAVA.fix}")
    version = _java_version(path)
    if version is not None and version < OLDEST_JAVA:
        raise SessionError(
            f"sciworld: {path} is Java {version}, and ScienceWorld needs Java {OLDEST_JAVA} or "
            f"newer; {JAVA.fix}"
        )
    return path


@cache  # a Java that does not run is asked again: errors are not kept
def _java_version(path: str) -> int | None:
    """The version of a Java, such as 17, and 8 for 1.8; None: it does not say. Raises
    `SessionError` if it does not run."""
    try:
        asked = subprocess.run(
            [path, "-version"],  # Java 8 does not know --version
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SessionError(f"sciworld: {path} does not run ({error}); {FIX}") from error
    if asked.returncode != 0:
        said = asked.stderr.strip().splitlines() or [f"exit code {asked.returncode}"]
        raise SessionError(f"sciworld: {path} does not run ({said[0]}); {FIX}")
    found = re.search(r'version "(?:1\.)?(\d+)', asked.stderr)
    return int(found[1]) if found else None


class Jvm:
    """A running JVM."""

    def __init__(self, worlds: int) -> None:
        """Start a JVM with memory for `worlds` loaded worlds, in about half a second. Raises
        `SessionError` if Java does not start."""
        heap_mb = BASE_HEAP_MB + WORLD_HEAP_MB * worlds
        java = _java()
        try:
            port, token, process = launch_gateway(
                classpath=str(JAR_PATH),
                javaopts=[f"-Xmx{heap_mb}m", *FLAGS],
                java_path=java,
                die_on_exit=True,
                enable_auth=True,  # else any user of the machine could run Java code through it
                cwd=str(Path(JAR_PATH).parent),
                return_proc=True,
            )
        except (OSError, ValueError, Py4JError) as error:
            raise SessionError(f"sciworld: Java did not start ({error}); {FIX}") from error
        self._process: subprocess.Popen[bytes] = process
        self._lock = threading.Lock()
        self._began = 0.0
        """When the current turn began."""
        parameters = GatewayParameters(port=port, auth_token=token, auto_field=True)
        self._gateway = JavaGateway(gateway_parameters=parameters, java_process=process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def simulator(self) -> Any:
        """A new simulator, py4j's proxy of a `PythonInterface`."""
        with self.calls():
            return self._gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface()

    @contextmanager
    def calls(self) -> Iterator[None]:
        """Holds the lock for a sequence of calls. Raises `SessionError` if the JVM has died, hangs,
        or failed in a call."""
        while not self._lock.acquire(timeout=LOOK_S):
            if time.monotonic() - self._began > TURN_TIMEOUT_S:
                self.kill()
                message = f"sciworld: JVM {self.pid} did not answer in {TURN_TIMEOUT_S:g} s"
                raise SessionError(message)
        self._began = time.monotonic()
        try:
            yield
        except Py4JJavaError as error:
            raise SessionError(f"sciworld: {error.java_exception.toString()}") from error
        except (Py4JError, OSError) as error:
            self.kill()  # its connection is broken: no session can go on
            _free_connections(error)
            raise SessionError(f"sciworld: JVM {self.pid} has died") from error
        finally:
            self._lock.release()

    def kill(self) -> None:
        """End the JVM at once, with all its worlds."""
        if self.alive:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):  # a busy machine takes longer to free it
                self._process.wait(EXIT_TIMEOUT_S)
        self._gateway.close(keep_callback_server=True)  # the connections to the JVM
        # Else py4j connects to the port again for each Java object that is freed, and sends its
        # token to whatever listens there now.
        self._gateway._gateway_client.is_connected = False
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


def _free_connections(error: BaseException) -> None:
    """Free the local variables of the calls that raised `error`. Among them are connections which
    py4j could not open, and whose sockets it never closes."""
    cause: BaseException | None = error
    while cause is not None:
        traceback.clear_frames(cause.__traceback__)
        cause = cause.__context__
