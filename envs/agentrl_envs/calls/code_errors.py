"""Errors that the code of an environment raises, as a message for its author.

    with code_errors("lights", task):
        environment.step(action)

The message has the frames of the environment's code only: those of AgentRL, of multiprocessing and
of asyncio around them say nothing about the error.
"""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import dropwhile
from pathlib import Path

from agentrl_envs.env import Task
from agentrl_envs.errors import CodeError, OptionError, WorldError

PACKAGE = str(Path(__file__).parents[1])
"""The code of this package."""

ENVIRONMENTS = str(Path(PACKAGE) / "environments")
"""That of the built-in environments in it."""

AROUND = (*(sysconfig.get_path(name) for name in ("stdlib", "platstdlib")), PACKAGE, "<frozen ")
"""Paths of the code that calls environments: the standard library and this package."""

REMOTE_FRAME = re.compile(r'^  File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
"""A frame in the traceback that another process has sent as text."""


@contextmanager
def code_errors(environment: str, task: Task | None = None) -> Iterator[None]:
    """Raise an error of the block that is no `WorldError` and no `OptionError`, of any class, as a
    `CodeError`. `environment` is the name that the message gives it."""
    try:
        yield
    except (WorldError, OptionError):
        raise
    except Exception as error:
        raise CodeError(_described(environment, task, error)) from error


def _described(environment: str, task: Task | None, error: Exception) -> str:
    frames = list(dropwhile(_is_around, _frames(error)))
    at = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    during = f" (task {task.id})" if task is not None else ""
    raised = "".join(traceback.format_exception_only(error)).strip()
    shown = "".join(traceback.format_list(frames)).rstrip()
    return f"environment {environment}: {raised}{at}{during}" + (f"\n{shown}" if shown else "")


def _frames(error: Exception) -> list[traceback.FrameSummary]:
    """The frames of an error, outermost first. An error of another process has its frames as the
    text of its cause."""
    sent = getattr(error.__cause__, "tb", None)
    if isinstance(sent, str):
        return [
            traceback.FrameSummary(file, int(line), name)
            for file, line, name in REMOTE_FRAME.findall(sent)
        ]
    return list(traceback.extract_tb(error.__traceback__))


def _is_around(frame: traceback.FrameSummary) -> bool:
    """Whether a frame is of the code around that of an environment."""
    file = frame.filename
    if file.startswith(ENVIRONMENTS) or "site-packages" in file.removeprefix(PACKAGE):
        return False
    return file.startswith(AROUND)
