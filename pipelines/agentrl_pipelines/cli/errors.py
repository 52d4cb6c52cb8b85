"""How a command ends when something is wrong: a message and an exit code, no traceback.

2    the manifest, an option or a file is wrong: nothing was started
1    the run failed
130  the run was stopped; the same command goes on
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def told() -> Iterator[None]:
    """Turn the errors of our boundaries into messages."""
    from agentrl_components.errors import ModelError, RunError, SpecError, Stopped
    from agentrl_envs.errors import TaskError, WorldError

    try:
        yield
    except SpecError as error:
        for mistake in error.mistakes:
            click.echo(mistake, err=True)
        sys.exit(2)
    except (ModelError, TaskError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
    except Stopped as stopped:
        click.echo(f"stopped: {stopped}. The same command goes on from here.", err=True)
        sys.exit(130)
    except KeyboardInterrupt:
        click.echo("interrupted. The same command goes on from the last checkpoint.", err=True)
        sys.exit(130)
    except (RunError, WorldError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
