"""`agentrl envs`: list, serve, check, play and start environments."""

from __future__ import annotations

import contextlib
import shutil
import sys
from pathlib import Path

import click

from agentrl_envs.output.printable import echo
from agentrl_pipelines.cli.env_commands.play import play
from agentrl_pipelines.cli.env_commands.serve import serve
from agentrl_pipelines.cli.env_commands.source import (
    COUNT,
    PORT,
    open_task_set,
    option_options,
    option_protocol,
    option_token_env,
    option_url,
    parse_options,
    usage_errors,
)


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
                echo(f"{each:<12} {line}")
                for what, fix in registry.needs(each).missing():
                    echo(f"{'':<12} not installed here: {what}; {fix}")
            for each, extension in extensions.installed().items():
                echo(f"{each:<12} {extension.summary}")
            return
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
        for field, line in registry.options(name).items():
            echo(click.wrap_text(f"{field:<24} {line}", width, subsequent_indent=" " * 25))
        needs = registry.needs(name)
        echo(f"on Kubernetes: image {needs.image}, {needs.memory_mib}Mi of memory per server")


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
        echo(f"{site:<16} {url}/{login}", err=True)
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
    from agentrl_envs.conformance.check import check, rules_for
    from agentrl_envs.output.fail_safe import fail_safe_console
    from agentrl_pipelines.cli.progress_view import view_for

    view = view_for(fail_safe_console(stderr=True))
    with usage_errors(), open_task_set(name, options, url, protocol, token_env) as task_set:
        factory = None if url else partial(registry.task_set, name, parse_options(options))
        view.stage(f"rules for {name}", len(rules_for(factory)))
        with contextlib.closing(view):
            report = check(
                task_set,
                tasks=tasks,
                seed=seed,
                factory=factory,
                on_result=lambda _: view.advance(),
            )
    echo(str(report))
    sys.exit(0 if report.passed else 1)


@envs.command("new")
@click.argument("name")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="Folder to write.  [default: NAME in the current folder]",
)
def new_command(name: str, folder: Path | None) -> None:
    """Write the Python package of a new environment NAME: a small game that works, and its test."""
    from agentrl_envs.scaffold import write_package

    with usage_errors():
        for path in write_package(name, folder or Path(name)):
            echo(path)


envs.add_command(serve)
envs.add_command(play)
