"""`agentrl envs`: list, serve, check, play and start environments."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentrl_pipelines.cli.errors import exit_on_error

if TYPE_CHECKING:
    from agentrl_envs.env import Split, TaskSet
    from agentrl_pipelines.local.agent import TrainedAgent

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


@click.group()
def envs() -> None:
    """List, serve, check and play environments, and start a new one.

    NAME is the name of a built-in environment, the name that an installed package gives one, or
    module:Class."""


@envs.command("list")
@click.argument("name", required=False)
def list_command(name: str | None) -> None:
    """List the environments, or the options of environment NAME."""
    from agentrl_envs import extensions, registry

    with usage_errors():
        if name is None:
            for each, line in registry.names().items():
                click.echo(f"{each:<12} {line}")
                for what, fix in registry.needs(each).missing():
                    click.echo(f"{'':<12} not installed here: {what}; {fix}")
            for each, extension in extensions.installed().items():
                click.echo(f"{each:<12} {extension.summary}")
            return
        for field, line in registry.options(name).items():
            click.echo(f"{field:<24} {line}")
        needs = registry.needs(name)
        click.echo(f"on Kubernetes: image {needs.image}, {needs.memory_mib}Mi of memory a server")


@envs.command("serve")
@click.argument("name")
@option_options
@option_token_env
@click.option(
    "--protocol",
    type=click.Choice(["agentrl", "agentgym", "openenv"]),
    default="agentrl",
    show_default=True,
    help="Protocol to serve beside our own. Its clients send the token as the password of the URL.",
)
@click.option(
    "--family", help="With --protocol agentgym: the AgentGym server to be. Default: by NAME."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to bind to.")
@click.option(
    "--port", type=PORT, default=8080, show_default=True, help="Port to bind to. 0: a free port."
)
@click.option("--capacity", default=256, show_default=True, help="Maximum number of open sessions.")
@click.option(
    "--ttl", default=300.0, show_default=True, help="Seconds after which an idle session is closed."
)
@click.option(
    "--timeout", default=60.0, show_default=True, help="Time limit of a step, in seconds."
)
@click.option(
    "--drain",
    default=0.0,
    show_default=True,
    help="Seconds that live sessions are given to end after SIGTERM; new ones are refused.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Processes that run environments. 0: run them in threads.",
)
@click.option(
    "--threads",
    type=COUNT,
    default=32,
    show_default=True,
    help="Number of threads if --workers is 0.",
)
def serve_command(
    name: str,
    options: tuple[str, ...],
    token_env: str,
    protocol: str,
    family: str | None,
    host: str,
    port: int,
    capacity: int,
    ttl: float,
    timeout: float,
    drain: float,
    workers: int,
    threads: int,
) -> None:
    """Serve environment NAME over HTTP until interrupted."""
    from functools import partial

    from agentrl_envs import registry
    from agentrl_envs.server.app import ServerOptions, create_app
    from agentrl_envs.server.executors import Executor, ProcessExecutor, ThreadExecutor
    from agentrl_envs.server.run import bind_socket, check_exposure, serve

    token = os.environ.get(token_env) or None
    with usage_errors():
        check_exposure(host, has_token=token is not None)
        factory = partial(registry.task_set, name, parse_options(options))
        tasks = factory()
        given = {
            "capacity": capacity,
            "ttl_s": ttl,
            "timeout_s": timeout,
            "drain_s": drain,
            "token": token,
        }
        settings = ServerOptions.model_validate(given)
        gateway = None
        if protocol == "agentgym":
            from agentrl_envs.protocols.agentgym_server import agentgym_gateway

            gateway = agentgym_gateway(tasks, family)
        elif protocol == "openenv":
            from agentrl_envs.protocols.openenv_server import openenv_gateway

            gateway = openenv_gateway(tasks)
        bound = bind_socket(host, port)
    environments: Executor = (
        ProcessExecutor(factory, workers=workers)
        if workers
        else ThreadExecutor(tasks, threads=threads)
    )
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"{name} on http://{shown}:{bound.getsockname()[1]}, {capacity} sessions", err=True)
    app = create_app(tasks, environments, settings, gateway=gateway)
    serve(app, bound, websockets=protocol == "openenv")


@envs.command("sites")
@click.option(
    "--port", type=PORT, default=8090, show_default=True, help="Port to bind to. 0: a free port."
)
@click.option("--seed", default=0, show_default=True, help="Seed of the content.")
def sites_command(port: int, seed: int) -> None:
    """Serve the sites of environment web on this machine, to look at them in a browser.

    Prints the address and the account of each site."""
    from agentrl_envs.environments.web_sites.accounts import ACCOUNTS
    from agentrl_envs.environments.web_sites.serving import listen, serve_sites, site_urls

    try:
        bound = listen(port)
    except OSError as error:
        raise click.UsageError(
            f"--port: cannot listen on {port} ({error.strerror}); choose another port"
        ) from None
    for site, url in site_urls(bound.getsockname()[1]).items():
        account = ACCOUNTS.get(site)
        login = f"  sign in as {account.username!r}, {account.password!r}" if account else ""
        click.echo(f"{site:<16} {url}/{login}", err=True)
    serve_sites(bound, seed)


@envs.command("check")
@click.argument("name")
@option_options
@option_url
@option_protocol
@option_token_env
@click.option(
    "--tasks", type=COUNT, default=50, show_default=True, help="Tasks to play of each split."
)
@click.option("--seed", default=0, show_default=True, help="Seed of the random actions.")
def check_command(
    name: str,
    options: tuple[str, ...],
    url: str | None,
    protocol: str,
    token_env: str,
    tasks: int,
    seed: int,
) -> None:
    """Check that environment NAME meets the environment contract. Exit code 1 if it does not."""
    from functools import partial

    from agentrl_envs import registry
    from agentrl_envs.conformance.check import check

    with usage_errors(), open_task_set(name, options, url, protocol, token_env) as task_set:
        factory = None if url else partial(registry.task_set, name, parse_options(options))
        report = check(task_set, tasks=tasks, seed=seed, factory=factory)
    click.echo(str(report))
    sys.exit(0 if report.passed else 1)


@envs.command("new")
@click.argument("name")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="Folder to write. Default: NAME in the current folder.",
)
def new_command(name: str, folder: Path | None) -> None:
    """Write the Python package of a new environment NAME: a small game that works, and its test."""
    from agentrl_envs.scaffold import write_package

    with usage_errors():
        for path in write_package(name, folder or Path(name)):
            click.echo(path)


@envs.command("play")
@click.argument("name")
@option_options
@option_url
@option_protocol
@option_token_env
@click.option(
    "--split",
    type=click.Choice(["train", "heldout"]),
    default="train",
    show_default=True,
    help="Split to take the task from.",
)
@click.option(
    "--index",
    type=click.IntRange(0, 999_999),
    default=0,
    show_default=True,
    help="Index of the task. Finding it takes time proportional to the index.",
)
@click.option(
    "--agent",
    metavar="ROOT|SOURCE",
    help="Play beside a trained agent: the folder of a run, or a model source such as "
    "models:/NAME/VERSION.",
)
@click.option(
    "--checkpoint",
    metavar="N|best|last",
    default="best",
    show_default=True,
    help="With --agent ROOT: the checkpoint.",
)
@click.option("--watch", is_flag=True, help="With --agent: watch it play, without being asked.")
@click.option("--max-turns", type=COUNT, help="Turns after which the episode is cut off.")
def play_command(
    name: str,
    options: tuple[str, ...],
    url: str | None,
    protocol: str,
    token_env: str,
    split: Split,
    index: int,
    agent: str | None,
    checkpoint: str,
    watch: bool,
    max_turns: int | None,
) -> None:
    """Play a task of environment NAME in the terminal, alone or beside a trained agent."""
    from rich.console import Console

    from agentrl_envs.terminal import play

    if watch and agent is None:
        raise click.UsageError("--watch: has no effect without --agent")
    console = Console(highlight=False, soft_wrap=True)
    with (
        exit_on_error(),
        usage_errors(),
        open_partner(agent, checkpoint, name) as (partner, trained_in),
        open_task_set(name, options, url, protocol, token_env, trained_in) as task_set,
    ):
        play(
            task_set,
            split=split,
            index=index,
            console=console,
            ask=lambda: console.input("[bold]> [/]"),
            partner=partner,
            watch=watch,
            max_turns=max_turns,
        )


@contextmanager
def open_partner(
    agent: str | None, checkpoint: str, environment: str
) -> Iterator[tuple[TrainedAgent | None, dict[str, Any]]]:
    """The agent, None without one, and the options of the environment that it was trained in."""
    if agent is None:
        yield None, {}
        return
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from agentrl_pipelines.local.agent import TrainedAgent, fetch_agent

    with TemporaryDirectory(prefix="agentrl-") as scratch:
        saved = fetch_agent(agent, checkpoint, environment, Path(scratch))
        partner = TrainedAgent(saved)
        try:
            yield partner, saved.options
        finally:
            partner.close()


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
    the given ones override."""
    from agentrl_envs import registry

    if url is None:
        yield registry.task_set(name, {**(defaults or {}), **parse_options(options)})
        return
    from agentrl_envs.client.blocking import BlockingTaskSet

    token = os.environ.get(token_env) or None
    source: Any = url
    if protocol != "agentrl":
        from agentrl_envs.protocols.connect import opener

        source = opener(protocol, url, parse_options(options))
    with BlockingTaskSet(source, token=token) as remote:
        if name not in (remote.name, remote.name.removeprefix(f"{protocol}-")):
            raise click.UsageError(f"NAME: {url} serves {remote.name}, not {name}; give that name")
        yield remote


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
    """Turn errors in the arguments into usage errors (exit code 2)."""
    from pydantic import ValidationError

    from agentrl_envs.errors import WorldError

    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = "--" + str(first["loc"][0]).removesuffix("_s")
        raise click.UsageError(f"{field}: {first['msg']}; got {first['input']!r}") from None
    except (ValueError, WorldError) as error:
        raise click.UsageError(str(error)) from None
