"""`python -m agentrl_operator`: run the operator."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from agentrl_envs.http.listening import ALL_ADDRESSES
from agentrl_operator.leader_election.election import LeaseName, Timing

if TYPE_CHECKING:
    from agentrl_operator.app import Options
    from agentrl_pipelines.platform.config import Platform


RECURSION_LIMIT = 60_000
"""The API server accepts objects of up to 10,000 levels. With Python's limit of 1,000, a single
AgentRLRun that is nested deeper would make every list and every watch fail to parse."""


def _lease(_: click.Context, __: click.Parameter, text: str | None) -> LeaseName | None:
    try:
        return LeaseName.parse(text) if text is not None else None
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.option(
    "--platform",
    "path",
    type=click.Path(path_type=Path),
    default=Path("/etc/agentrl/platform.yaml"),
    show_default=True,
    help="Configuration of the platform.",
)
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    help="Watch this namespace only; repeat for several. Default: all namespaces.",
)
@click.option(
    "--lease",
    metavar="NAMESPACE/NAME",
    callback=_lease,
    help="Lease for leader election. Default: none; this is the only operator.",
)
@click.option(
    "--lease-seconds",
    default=15,
    show_default=True,
    type=click.IntRange(min=3),
    help="Time after which another operator takes over a lease that is not renewed.",
)
@click.option(
    "--metrics-host",
    default=ALL_ADDRESSES,
    show_default=True,
    help="Address of probes and metrics; ::, all of IPv6 and IPv4.",
)
@click.option(
    "--metrics-port",
    default=8080,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Their port; 0: any free one.",
)
@click.option(
    "--workers",
    default=16,
    show_default=True,
    type=click.IntRange(min=1),
    help="Runs reconciled at the same time.",
)
@click.option(
    "--log-format",
    type=click.Choice(["json", "plain"]),
    default="json",
    show_default=True,
    help="Format of the log.",
)
def main(
    path: Path,
    namespaces: tuple[str, ...],
    lease: LeaseName | None,
    lease_seconds: int,
    metrics_host: str,
    metrics_port: int,
    workers: int,
    log_format: Literal["json", "plain"],
) -> None:
    """Reconcile AgentRLRuns until a signal arrives."""
    raise_recursion_limit()
    block_official_client()
    from agentrl_components.errors import SpecError
    from agentrl_operator.app import Options
    from agentrl_operator.errors import DependencyError
    from agentrl_operator.telemetry.logs import log_to_stderr
    from agentrl_pipelines.platform.config import load

    log_to_stderr(log_format)
    options = Options(namespaces=namespaces, host=metrics_host, port=metrics_port, workers=workers)
    try:
        asyncio.run(_run(load(path), options, lease, lease_seconds))
    except (SpecError, DependencyError) as error:
        raise click.ClickException(str(error)) from None


def raise_recursion_limit() -> None:
    """Let Python parse any object that the API server accepts."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))


def block_official_client() -> None:
    """Keep Kopf from importing the official Kubernetes client where that is installed: it takes
    50 MB, and Kopf only looks at its types."""
    sys.modules.setdefault("kubernetes", None)  # type: ignore[arg-type]


async def _run(platform: Platform, options: Options, lease: LeaseName | None, lease_s: int) -> None:
    from agentrl_operator.app import operate
    from agentrl_operator.clients.kfp import KfpApi
    from agentrl_operator.clients.kubernetes import KubernetesApi
    from agentrl_operator.clients.kubernetes_connection import login
    from agentrl_operator.clients.mlflow import MlflowApi, authorization
    from agentrl_operator.clients.protocols import Clients
    from agentrl_operator.clients.run_store import RunStoreOpener, RunStores
    from agentrl_operator.clients.write_gate import WriteGate
    from agentrl_operator.leader_election.elector import LeaderElector
    from agentrl_operator.leader_election.lease_client import LeaseClient
    from agentrl_pipelines.kfp_pipeline.pipeline_spec import phase_pipeline

    login()  # an invalid kubeconfig is not waited for, as an API server is that does not answer
    gc.collect()
    gc.freeze()  # loaded modules stay: scanning them in each collection costs time and memory
    stop = asyncio.Event()
    for one in (signal.SIGINT, signal.SIGTERM):  # PID 1 ignores signals without a handler
        asyncio.get_running_loop().add_signal_handler(one, stop.set)
    async with AsyncExitStack() as stack:
        gate = WriteGate()
        cluster = KubernetesApi(gate=gate)
        tracking = MlflowApi(gate=gate, authorization=authorization(platform, os.environ))
        stores = RunStores(RunStoreOpener(platform).open)
        pipelines = KfpApi(
            platform.kfp.url,
            cluster,
            multi_user=platform.kfp.multi_user,
            token_file=platform.kfp.token_file,
            gate=gate,
        )
        stack.callback(stores.close)
        for api in (cluster, tracking, pipelines):
            stack.push_async_callback(api.close)
        clients = Clients(
            cluster=cluster,
            pipelines=pipelines,
            stores=stores,
            tracking=tracking,
            bind=phase_pipeline,
        )
        elector = None
        if lease is not None:
            leases, timing = LeaseClient(cluster.request), Timing(lease_duration_s=lease_s)
            elector = LeaderElector(leases, lease, gate, timing=timing)
        await operate(clients, platform, options, elector=elector, stop=stop)


if __name__ == "__main__":
    main()
