"""The environment of a command under `agentrl envs`: a local one with options, or a server's."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from agentrl_envs.output.printable import clean

if TYPE_CHECKING:
    from agentrl_envs.env import TaskSet

TOKEN_VARIABLE = "AGENTRL_ENVS_TOKEN"

PORT = click.IntRange(0, 65535)
COUNT = click.IntRange(min=1)

option_options = click.option(
    "--options",
    "-o",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option of the environment; the value may be JSON. Repeatable.",
)
option_token_env = click.option(
    "--token-env",
    default=TOKEN_VARIABLE,
    show_default=True,
    metavar="NAME",
    help="Environment variable that holds the bearer token.",
)
option_protocol = click.option(
    "--protocol",
    type=click.Choice(["agentrl", "agentgym", "openenv"]),
    default="agentrl",
    show_default=True,
    help="Protocol of the server at --url; --options are then those of the connection.",
)
option_url = click.option("--url", help="URL of a running server, instead of a local environment.")


@contextmanager
def open_task_set(
    name: str,
    options: tuple[str, ...],
    url: str | None,
    protocol: str,
    token_env: str,
    defaults: Mapping[str, Any] | None = None,
) -> Iterator[TaskSet]:
    """The environment NAME, or the one that the server at `url` serves. `defaults` are options that
    the given ones override. Raises `click.UsageError` if an option has no effect."""
    from agentrl_envs import registry
    from agentrl_envs.env import start_programs

    check_server_options(options, url, protocol, token_env)
    if url is None:
        tasks = registry.task_set(name, {**(defaults or {}), **parse_options(options)})
        start_programs(tasks)
        yield tasks
        return
    from agentrl_envs.client.blocking import BlockingTaskSet

    token = os.environ.get(token_env) or None
    source: Any = url
    if protocol != "agentrl":
        from agentrl_envs.protocols.connect import opener

        source = opener(protocol, url, parse_options(options))
    with BlockingTaskSet(source, token=token) as remote:
        if name not in (remote.name, remote.name.removeprefix(f"{protocol}-")):
            served = clean(remote.name)
            raise click.UsageError(f"NAME: {url} serves {served}, not {name}; give that name")
        yield remote


def check_server_options(
    options: tuple[str, ...], url: str | None, protocol: str, token_env: str
) -> None:
    """Raises `click.UsageError` if an option that was given has no effect."""
    if url is None and protocol != "agentrl":
        raise click.UsageError("--protocol: has no effect without --url")
    if url is None and token_env != TOKEN_VARIABLE:
        raise click.UsageError("--token-env: has no effect without --url")
    if url is not None and protocol == "agentrl" and options:
        raise click.UsageError(
            "--options: have no effect with --url and --protocol agentrl; give them to the server"
        )


def parse_options(given: tuple[str, ...]) -> dict[str, Any]:
    """Parse KEY=VALUE pairs. A value that is not JSON is a string."""
    options: dict[str, Any] = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.UsageError(f"--options: {pair!r} is not of the form KEY=VALUE")
        try:
            options[key] = json.loads(value)
        except json.JSONDecodeError:
            options[key] = value
    return options


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn errors in the arguments into usage errors (exit code 2), and those of the environment's
    author into a message (exit code 1)."""
    from pydantic import ValidationError

    from agentrl_envs.errors import CodeError, ContractError, WorldError

    try:
        yield
    except (CodeError, ContractError) as error:
        raise click.ClickException(clean(str(error))) from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = "--" + str(first["loc"][0]).removesuffix("_s")
        raise click.UsageError(f"{field}: {first['msg']}; got {first['input']!r}") from None
    except (ValueError, WorldError) as error:
        raise click.UsageError(clean(str(error))) from None
