"""`python -m agentrl_operator`: run the operator."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from agentrl_operator.leader_election.election import Name, Timing

if TYPE_CHECKING:
    from agentrl_operator.app import Options
    from agentrl_pipelines.platform.config import Platform


def _lease(_: click.Context, __: click.Parameter, text: str | None) -> Name | None:
    try:
        return Name.read(text) if text is not None else None
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.option(
    "--platform",
    "path",
    type=click.Path(path_type=Path),
    default=Path("/etc/agentrl/platform.yaml"),
    show_default=True,
    help="What the administrator says about the cluster.",
)
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    help="Serve this namespace only; may be given again. Default: all of them.",
)
@click.option(
    "--lease",
    metavar="NAMESPACE/NAME",
    callback=_lease,
    help="Act only while holding this Lease. Default: act at once, as the only operator.",
)
@click.option(
    "--lease-seconds",
    default=15,
    show_default=True,
    type=click.IntRange(min=3),
    help="After so long another operator takes it over from one that is gone.",
)
@click.option("--metrics-host", default="0.0.0.0", show_default=True, help="Address of the probes.")
@click.option("--metrics-port", default=8080, show_default=True, help="0: the system chooses.")
@click.option("--workers", default=16, show_default=True, help="Runs looked at side by side.")
@click.option(
    "--log-format", type=click.Choice(["json", "plain"]), default="json", show_default=True
)
def main(
    path: Path,
    namespaces: tuple[str, ...],
    lease: Name | None,
    lease_seconds: int,
    metrics_host: str,
    metrics_port: int,
    workers: int,
    log_format: Literal["json", "plain"],
) -> None:
    """Run every AgentRLRun there is, until told to stop."""
    without_the_official_client()
    from agentrl_components.errors import SpecError
    from agentrl_operator.app import Options
    from agentrl_operator.errors import Trouble
    from agentrl_operator.telemetry.logs import log_to_stderr
    from agentrl_pipelines.platform.config import load

    log_to_stderr(log_format)
    options = Options(namespaces=namespaces, host=metrics_host, port=metrics_port, workers=workers)
    try:
        asyncio.run(_operated(load(path), options, lease, lease_seconds))
    except (SpecError, Trouble) as error:
        raise click.ClickException(str(error)) from None


def without_the_official_client() -> None:
    """Kopf loads Kubernetes' official client where it is installed, only to know its types: 50 MB
    for nothing."""
    sys.modules.setdefault("kubernetes", None)  # type: ignore[arg-type]


async def _operated(platform: Platform, options: Options, lease: Name | None, lease_s: int) -> None:
    from agentrl_operator.app import operate
    from agentrl_operator.clients.kfp import KfpApi
    from agentrl_operator.clients.kubernetes import KubernetesApi
    from agentrl_operator.clients.mlflow import MlflowApi
    from agentrl_operator.clients.protocols import Neighbours
    from agentrl_operator.clients.run_store import Standings, opened
    from agentrl_operator.clients.write_gate import Term
    from agentrl_operator.leader_election.elector import Leadership
    from agentrl_pipelines.kfp_pipeline.pipeline_spec import phase_pipeline

    gc.collect()
    gc.freeze()  # what was loaded stays: to look through it again and again is time and memory
    stop = asyncio.Event()
    for one in (signal.SIGINT, signal.SIGTERM):  # before Kopf's: an init process ignores others
        asyncio.get_running_loop().add_signal_handler(one, stop.set)
    async with AsyncExitStack() as stack:
        term = Term()
        cluster, tracking = KubernetesApi(term=term), MlflowApi(term=term)
        stores = Standings(opened)
        pipelines = KfpApi(
            platform.kfp.url,
            cluster,
            multi_user=platform.kfp.multi_user,
            token_file=platform.kfp.token_file,
            term=term,
        )
        stack.callback(stores.close)
        for api in (cluster, tracking, pipelines):
            stack.push_async_callback(api.close)
        neighbours = Neighbours(
            cluster=cluster,
            pipelines=pipelines,
            stores=stores,
            tracking=tracking,
            bind=phase_pipeline,
        )
        leadership = None
        if lease is not None:
            timing = Timing(duration_s=lease_s)
            leadership = Leadership(cluster.leases, lease, term, timing=timing)
        await operate(neighbours, platform, options, leadership=leadership, stop=stop)


if __name__ == "__main__":
    main()
