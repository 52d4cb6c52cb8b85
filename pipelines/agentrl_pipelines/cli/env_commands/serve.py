"""`agentrl envs serve`: serve an environment over HTTP."""

from __future__ import annotations

import logging
import os

import click

from agentrl_envs.output.printable import echo, log_to_stderr
from agentrl_pipelines.cli.env_commands.source import (
    COUNT,
    PORT,
    option_options,
    option_token_env,
    parse_options,
    usage_errors,
)


@click.command("serve")
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
    "--family",
    help="With `--protocol agentgym`: the AgentGym server whose protocol is served.  "
    "[default: that of NAME]",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to bind to.")
@click.option(
    "--port", type=PORT, default=8080, show_default=True, help="Port to bind to. 0: a free port."
)
@click.option("--capacity", default=256, show_default=True, help="Maximum number of open sessions.")
@click.option(
    "--ttl",
    default=300.0,
    show_default=True,
    help="Seconds after which a session is closed that its client neither uses nor renews.",
)
@click.option(
    "--timeout",
    default=60.0,
    show_default=True,
    help="Time limit of a step, in seconds, unless the client gives up sooner.",
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
    help="Processes that run environments, one call at a time in each; one that makes a call for "
    "longer than --timeout is replaced. 0: run them in threads.",
)
@click.option(
    "--threads",
    type=COUNT,
    default=32,
    show_default=True,
    help="Number of threads if --workers is 0.",
)
def serve(
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
    from agentrl_envs.errors import OptionError
    from agentrl_envs.http.address import address_of
    from agentrl_envs.server import run as server
    from agentrl_envs.server.app import ServerOptions, create_app
    from agentrl_envs.server.execution.executor import Executor
    from agentrl_envs.server.execution.process_executor import ProcessExecutor
    from agentrl_envs.server.execution.thread_executor import ThreadExecutor
    from agentrl_pipelines.stages.termination import reported

    if family is not None and protocol != "agentgym":
        raise click.UsageError("--family: has no effect without --protocol agentgym")
    log_to_stderr("%(message)s")
    logging.getLogger("agentrl_envs").setLevel(logging.INFO)
    token = os.environ.get(token_env) or None
    with usage_errors(), reported(OptionError):
        server.check_exposure(host, has_token=token is not None)
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
        bound = server.bind_socket(host, port)
    environments: Executor = (
        ProcessExecutor(factory, workers=workers, name=tasks.name, timeout_s=settings.timeout_s)
        if workers
        else ThreadExecutor(tasks, threads=threads)
    )
    shown = address_of(host, bound.getsockname()[1])
    echo(f"{name} on http://{shown}, {capacity} sessions", err=True)
    app = create_app(tasks, environments, settings, gateway=gateway)
    server.serve(app, bound, websockets=protocol == "openenv")
