"""What an environment needs beyond Python: packages, programs, memory, and the image that has them.

A built-in environment names its needs in the registry. The operator chooses the image and the
memory of its servers by them, and `agentrl validate` and `agentrl envs` say what is missing here.
Nothing here imports a package or starts a program.
"""

from __future__ import annotations

import importlib.util
import math
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

ImageTarget = Literal["envs", "envs-science", "envs-web"]
"""A target of the Dockerfile that serves environments."""


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _on_path(command: str) -> bool:
    return shutil.which(command) is not None


def install_extras(extras: str) -> str:
    """The fix of a message about missing packages: which extras of AgentRL to install, and how.
    `extras` are separated by commas."""
    noun = "extras" if "," in extras else "extra"
    return f"install the {noun} `{extras}` (`pip install '.[{extras}]'` in a checkout of AgentRL)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that an environment starts."""

    name: str
    commands: tuple[str, ...]
    """Names under which it may be on PATH, the preferred first; one is enough."""
    debian: str
    """The package of Debian 12 that has it."""

    def path(self) -> str | None:
        """Where it is on PATH, by its first name that is there; None: it is not installed."""
        return next(filter(None, map(shutil.which, self.commands)), None)

    @property
    def fix(self) -> str:
        """The command that installs it."""
        return f"apt-get install {self.debian}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What an environment needs where it runs."""

    image: ImageTarget = "envs"
    """The smallest image that has everything."""
    extra: str = "envs"
    """The extra of this package that installs `modules`."""
    modules: tuple[str, ...] = ()
    """Top-level modules that it imports."""
    programs: tuple[Program, ...] = ()
    memory_mib: int = 256
    """Memory of a server unless the manifest says more, in MiB; less is refused."""
    session_mib: int = 0
    """Memory of a session, in MiB. 0: a server's memory does not depend on its sessions."""
    idle_mib: int = 0
    """Memory of a server without a session, in MiB, where `session_mib` is above 0."""
    bounds: tuple[tuple[str, int], ...] = ()
    """Options whose product bounds the sessions of a process, with their defaults."""

    def most_sessions(self, options: Mapping[str, Any]) -> int | None:
        """The largest number of sessions of a process with these options. None: the environment
        sets no bound."""
        if not self.bounds:
            return None
        given = ((options.get(name), default) for name, default in self.bounds)
        # What is no number is refused where the environment's package is installed.
        return math.prod(one if isinstance(one, int) else default for one, default in given)

    def memory_of(self, sessions: int) -> int:
        """Memory of a server with so many open sessions, in MiB."""
        return max(self.memory_mib, self.idle_mib + sessions * self.session_mib)

    def missing(
        self,
        installed: Callable[[str], bool] = _installed,
        on_path: Callable[[str], bool] = _on_path,
    ) -> Iterator[tuple[str, str]]:
        """(what is not installed here, how to install it), for each need that is not met.

        `installed` says whether a module can be imported, `on_path` whether a command is found."""
        modules = [module for module in self.modules if not installed(module)]
        if modules:
            yield ", ".join(modules), install_extras(self.extra)
        for program in self.programs:
            if not any(map(on_path, program.commands)):
                yield program.name, program.fix


PYTHON_ONLY = Needs()
JAVA = Program(name="Java 17", commands=("java",), debian="openjdk-17-jre-headless")
CHROMIUM = Program(
    name="Chromium",
    # Debian's headless shell takes half the processor time.
    commands=(
        "chromium-headless-shell",
        "chromium",
        "chromium-browser",
        "google-chrome",
        "google-chrome-stable",
    ),
    debian="chromium-headless-shell",
)

SCIENCE = Needs(
    image="envs-science",
    extra="envs,science",
    modules=("scienceworld", "py4j"),
    programs=(JAVA,),
    memory_mib=1536,
    session_mib=17,  # 1.2 times the 14 MB of heap
    idle_mib=448,
    bounds=(("jvms", 1), ("worlds", 64)),
)
TEXTWORLD = Needs(extra="envs,textworld", modules=("textworld",), memory_mib=1024)
MINIWOB = Needs(
    image="envs-web",
    extra="envs,web",
    modules=("playwright", "miniwob"),
    programs=(CHROMIUM,),
    memory_mib=2048,
    session_mib=100,  # a process of Chromium each
    idle_mib=448,
)
WEB = replace(MINIWOB, bounds=(("sessions", 64),))
