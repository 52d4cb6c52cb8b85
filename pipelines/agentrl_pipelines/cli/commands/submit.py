"""`agentrl submit FILE`: create an AgentRLRun on a cluster."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from agentrl_envs.output.printable import echo
from agentrl_pipelines.cli.commands.status import turns_text
from agentrl_pipelines.cli.errors import exit_on_error
from agentrl_pipelines.cli.manifest_warnings import print_warnings
from agentrl_pipelines.cli.options import option_context, option_seed, option_set

if TYPE_CHECKING:
    from agentrl_components.run.progress import ProgressView
    from agentrl_pipelines.cli.kube_client import Cluster

POLL_S = 2.0
ENDED = ("Succeeded", "Failed")
LOST_SIGHT = 3
"""Exit code of `--wait` if the API server does not answer any more."""
SHORT_TTL_S = 60
"""A finished run that is deleted sooner may be gone before `--wait` reads that it has finished."""


class RunDeletedError(Exception):
    """The run that was watched was deleted. `last` is the last status that was read."""

    def __init__(self, last: dict[str, Any]) -> None:
        super().__init__("the run was deleted")
        self.last = last


@click.command(short_help="Train on a cluster: create an AgentRLRun.")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--namespace", "-n", help="Namespace.  [default: the manifest's, else the context's]")
@option_context
@option_seed
@option_set
@click.option("--wait", is_flag=True, help="Wait until the run ends.")
@click.option(
    "--dry-run",
    type=click.Choice(["server"]),
    help="Only ask the API server whether it would accept the run.",
)
def submit(
    file: str,
    namespace: str | None,
    context: str | None,
    seed: int | None,
    overrides: tuple[str, ...],
    wait: bool,
    dry_run: str | None,
) -> None:
    """Create an AgentRLRun from the manifest FILE on the cluster.

    Exit code 2 if the manifest has errors or the API server rejects it, with one line per error.
    With --wait: 1 if the run failed, or was deleted before its end was seen, which with a short
    ttlSecondsAfterFinished happens to a run that succeeded; and 3 if the API server did not answer
    for five minutes, while the run goes on."""
    with exit_on_error():
        from agentrl_components.errors import SpecError
        from agentrl_components.spec.parsing.load import load

        given = (*overrides, *([] if seed is None else [f"seed={seed}"]))
        run = load(file, given)
        own = run.metadata.namespace
        if namespace and own and namespace != own:
            raise SpecError(
                [f"metadata.namespace: is {own}, but -n is {namespace}; give only one of them"]
            )
        print_warnings(run.spec)
        if wait:
            _warn_of_short_ttl(run.spec.ttl_seconds_after_finished)
        from agentrl_pipelines.cli.kube_client import Cluster

        cluster = Cluster.open(context=context, namespace=namespace or own)
        cluster.create(run, dry_run=dry_run is not None)
        name = run.metadata.name
        if dry_run:
            echo(f"{name}: the API server accepts it in namespace {cluster.namespace}")
            return
        options = f" -n {cluster.namespace}" + (f" --context {context}" if context else "")
        echo(f"{name}: created in namespace {cluster.namespace}")
        echo(f"  agentrl status {name}{options}")
        echo(f"  agentrl logs {name}{options} -f")
        if wait:
            sys.exit(_wait_for_end(cluster, name, f"agentrl status {name}{options}"))


def _warn_of_short_ttl(ttl_s: int | None) -> None:
    if ttl_s is not None and ttl_s < SHORT_TTL_S:
        echo(
            f"warning: spec.ttlSecondsAfterFinished: is {ttl_s}; --wait may not see the end of the "
            f"run before it is deleted, and then exits with 1; set it to {SHORT_TTL_S} or more",
            err=True,
        )


def _wait_for_end(cluster: Cluster, name: str, command: str) -> int:
    """Show the progress of the run until it ends. Returns the exit code."""
    from agentrl_envs.output.fail_safe import fail_safe_console
    from agentrl_pipelines.cli.kube_client import UnavailableError
    from agentrl_pipelines.cli.progress_view import view_for

    try:
        with closing(view_for(fail_safe_console())) as view:
            status = watch(cluster, name, view)
    except KeyboardInterrupt:
        echo(f"stopped watching; the run continues. To see it: {command}", err=True)
        return 130
    except UnavailableError as error:
        echo(f"{error}\nstopped watching; the run continues. To see it: {command}", err=True)
        return LOST_SIGHT
    except RunDeletedError as error:
        echo(f"{name}: deleted")
        echo(
            f"{error}; last seen: {_seen(error.last)}. Whether it had ended is not known", err=True
        )
        return 1
    success = f"; held-out success {status['success']}" if status.get("success") else ""
    rejected = is_rejected(status)
    echo(f"{name}: {'not accepted' if rejected else status['state'].lower()}{success}")
    if rejected or status["state"] == "Failed":
        echo(status.get("message", "the operator gave no reason"), err=True)
        return 1
    return 0


def watch(
    cluster: Cluster, name: str, view: ProgressView, poll_s: float = POLL_S
) -> dict[str, Any]:
    """Show changes of the run's status in `view` until the run ends or is not accepted. Returns the
    last status. Raises `RunDeletedError` if the run, which exists at first, does not any more."""
    from agentrl_pipelines.cli.kube_client import NoSuchRunError

    shown: dict[str, Any] = {}
    while True:
        try:
            run = cluster.poll(name)
        except NoSuchRunError:
            raise RunDeletedError(shown) from None
        status: dict[str, Any] = run.get("status") or {}
        _show_changes(view, run["spec"], shown, status)
        if status.get("state") in ENDED or is_rejected(status):
            return status
        shown = status
        time.sleep(poll_s)


def _seen(status: dict[str, Any]) -> str:
    """A status in some words: running, iteration 12 of 50."""
    state: str = status.get("state", "Pending").lower()
    if "iterations" not in status:
        return state
    return f"{state}, iteration {status.get('iteration', 0)} of {status['iterations']}"


def is_rejected(status: dict[str, Any]) -> bool:
    """Whether the operator did not accept the manifest and no phase of an earlier one works: the
    run waits for a correction."""
    accepted = next((c for c in status.get("conditions", ()) if c["type"] == "Accepted"), None)
    works = status.get("state") != "Pending"
    return accepted is not None and accepted["status"] == "False" and not works


def _show_changes(
    view: ProgressView, spec: dict[str, Any], before: dict[str, Any], now: dict[str, Any]
) -> None:
    """Show what changed between two statuses: phase, iterations, success, message."""
    phases: list[dict[str, int]] = spec["horizon"]["phases"]
    index = now.get("phaseIndex", 0)
    running = now.get("state") == "Running" and index < len(phases)
    place = (now.get("state"), index)
    done = now.get("iteration", 0) - sum(phase["iterations"] for phase in phases[:index])
    if place != (before.get("state"), before.get("phaseIndex", 0)) or not before:
        if running:
            title = f"phase {index + 1}/{len(phases)} · {turns_text(spec, index)} turns"
            view.stage(title, phases[index]["iterations"])
            view.advance(max(0, done))
        elif now.get("state") not in ENDED:
            view.stage(now.get("state", "Pending").lower())
    elif running and now.get("iteration", 0) > before.get("iteration", 0):
        view.advance(now["iteration"] - before.get("iteration", 0))
    if now.get("success") and now["success"] != before.get("success"):
        view.note(f"held-out success {now['success']} after {now.get('iteration', 0)} iterations")
    if now.get("message") and now["message"] != before.get("message"):
        view.note(now["message"])
