"""Exit codes and messages of commands that fail: one sentence on stderr and no traceback.

0    success
1    the run failed, a package is not installed, or a service is unavailable
2    the manifest, an option or a file is invalid; nothing was started
130  the command was stopped; a run and an evaluation of an endpoint go on by the same command
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from agentrl_envs.output.printable import echo

EXTRAS = {
    "kubernetes": "pipelines",
    "urllib3": "pipelines",  # a dependency of kubernetes
    "torch": "train",
    "transformers": "train",
    "mlflow": "train",
}
"""The extra of AgentRL that installs a module which commands import."""


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Turn the errors that the packages raise for their callers into a message and an exit code."""
    from agentrl_components.errors import ModelError, RunError, SpecError, Stopped
    from agentrl_envs.errors import OptionError, TaskError, WorldError
    from agentrl_envs.needs import install_extras

    try:
        yield
    except SpecError as error:
        for mistake in error.mistakes:
            _tell(mistake)
        sys.exit(2)
    except OptionError as error:
        for line in str(error).splitlines():
            _tell(f"error: {line}")
        sys.exit(2)
    except (ModelError, TaskError) as error:
        _tell(f"error: {error}")
        sys.exit(2)
    except Stopped as stopped:
        _tell(f"stopped: {stopped}. Run the same command again to resume.")
        sys.exit(130)
    except KeyboardInterrupt as interrupt:
        from agentrl_pipelines.local.signals import exit_interrupted

        exit_interrupted(*interrupt.args)
    except (RunError, WorldError) as error:
        _tell(f"error: {error}")
        sys.exit(1)
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            raise
        fix = install_extras(EXTRAS[module])
        _tell(f"error: {module} is not installed; {fix}")
        sys.exit(1)


def _tell(line: str) -> None:
    """Print to stderr. If that fails the exit code must still say what happened: with `2>&1 | tee`
    Ctrl-C ends `tee`, too."""
    with suppress(OSError):
        echo(line, err=True)


def discard_unwritten_output() -> None:
    """Discard what stdout and stderr cannot write any more. Python would try again when the process
    ends, and exit with code 120 and a traceback."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError), open(os.devnull, "w") as nothing:
                os.dup2(nothing.fileno(), stream.fileno())
