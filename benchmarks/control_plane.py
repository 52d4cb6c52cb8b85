"""Load test of the operator on a real kube-apiserver and etcd, with KFP and S3 stubbed over HTTP.

    python benchmarks/control_plane.py --runs 1000 --out benchmarks/results/control_plane.json

The operator runs in a process of its own, as in its image. The first run is created when the API
server is idle after its start. (This file cannot be named operator.py: that would shadow the
module `operator` of the standard library for the other programs in this folder.)

Fields of the result:

- `created_s`: time to create all runs, with eight concurrent clients.
- `reconciled_s`: from the creation of the first run until every run has its Secret, Service,
  Deployment and KFP run, and a status that reports them.
- `status_p50_ms`, `status_p99_ms`: from sending a change of a spec until a watch delivers a status
  with the new generation, while all runs are running.
- `takeover_s`: from the start of a new operator until it has reconciled every run.
- `rss_mib`, `takeover_rss_mib`: peak resident memory of the operator, and of the new operator,
  which lists all objects at its start.
- `requests_per_run`: requests of the operator to the API server until all runs are reconciled.
- `operator_ms_per_run`, `apiserver_ms_per_run`, `etcd_ms_per_run`: processor time of each process
  until all runs are reconciled. On a machine with other load it is more reliable than
  `reconciled_s`.
- `benchmark_ms_per_run`: processor time of this program and the stub, which a cluster does not
  have.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import aiohttp
import click
import yaml

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / part) for part in ("operator/apiserver", "envs/processes")]

from apiserver import TOKEN, ApiServer, missing  # noqa: E402
from free_ports import free_ports  # noqa: E402
from processes import operator_process  # noqa: E402
from processes.operator_process import NAMESPACE, Operator, processor_s  # noqa: E402
from processes.run_watch import RUNS, Seen, watching  # noqa: E402
from report.machine import machine  # noqa: E402

RESOURCES = ("agentrlruns", "deployments", "services", "secrets", "events", "workflows", "pods")
SPEC = {
    "environments": [{"name": "babyai", "builtin": "babyai"}],
    "horizon": {"phases": [{"maxTurns": 3, "iterations": 20}, {"maxTurns": 6, "iterations": 20}]},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Result of one benchmark; the module describes the fields."""

    runs: int
    created_s: float
    reconciled_s: float
    status_p50_ms: float
    status_p99_ms: float
    takeover_s: float
    rss_mib: float
    takeover_rss_mib: float
    requests_per_run: float
    operator_ms_per_run: float
    apiserver_ms_per_run: float
    etcd_ms_per_run: float
    benchmark_ms_per_run: float


@click.command()
@click.option("--runs", default=1000, show_default=True)
@click.option(
    "--changes", default=300, show_default=True, help="Number of spec changes, one at a time."
)
@click.option("--out", "path", default="benchmarks/results/control_plane.json", show_default=True)
def main(runs: int, changes: int, path: str) -> None:
    """Load test of the operator: print the result and write it as JSON."""
    absent = missing()
    if absent is not None:
        raise click.ClickException(f"{absent}; run `make cluster` to build both")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # runs `finally` blocks
    before = machine()
    with tempfile.TemporaryDirectory() as folder, ApiServer.started(Path(folder)) as server:
        install_crds(server)
        wait_until_idle(server)
        result = asyncio.run(measure(server, Path(folder), runs, changes))
    written = {**before, **asdict(result)}
    click.echo(json.dumps(written, indent=2))
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(written, indent=2) + "\n")


def install_crds(server: ApiServer) -> None:
    """Create the namespace, install the CRD AgentRLRun and a minimal CRD of Argo Workflows."""
    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    server.install(ROOT / "helm" / "agentrl" / "files" / "crd.yaml")
    names = {"kind": "Workflow", "plural": "workflows", "singular": "workflow"}
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1alpha1", "served": True, "storage": True}
    crd = server.folder / "workflows.yaml"
    manifest = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "workflows.argoproj.io"},
        "spec": {
            "group": "argoproj.io",
            "scope": "Namespaced",
            "names": names,
            "versions": [version | {"schema": {"openAPIV3Schema": anything}}],
        },
    }
    crd.write_text(yaml.safe_dump(manifest))
    server.install(crd)


def wait_until_idle(server: ApiServer) -> None:
    """Wait until the API server has finished its start and the registration of the CRDs.

    Raises:
        click.ClickException: The API server is still busy after a minute.
    """
    pid, deadline = server.processes[1].pid, time.monotonic() + 60
    used = processor_s(pid)
    while time.monotonic() < deadline:
        time.sleep(2)
        before, used = used, processor_s(pid)
        if used - before < 0.2:
            return
    raise click.ClickException("the API server is still busy 60 s after the CRDs were installed")


async def measure(server: ApiServer, folder: Path, count: int, changes: int) -> Result:
    """Run the benchmark on a prepared API server."""
    stub_port, metrics_port = free_ports(2)
    stub = subprocess.Popen([sys.executable, operator_process.__file__, str(stub_port)])
    try:
        async with connected(server) as api, watching(api, server) as seen:
            operator = Operator(server, folder, stub_port, metrics_port)
            operator.start()
            try:
                await operator.ready()
                before = await requests(api, server)
                used = processor_seconds(server, operator, stub)
                began = time.monotonic()
                await create(api, server, count)
                created_s = time.monotonic() - began
                await seen.until(lambda: len(seen.started) == count, 900)
                reconciled_s = time.monotonic() - began
                asked = await requests(api, server) - before - count
                by_now = processor_seconds(server, operator, stub)
                latencies = await change_specs(api, server, seen, count, changes)
                rss = operator.peak_memory_mib()
                operator.stop()
                began = time.monotonic()
                operator.start()
                await operator.reconciled(count)
                takeover_s = time.monotonic() - began
                takeover_rss = operator.peak_memory_mib()
            finally:
                operator.stop()
    finally:
        stub.kill()
        stub.wait()
    ordered = statistics.quantiles(latencies, n=100, method="inclusive")
    return Result(
        runs=count,
        created_s=round(created_s, 2),
        reconciled_s=round(reconciled_s, 2),
        status_p50_ms=round(ordered[49] * 1e3, 1),
        status_p99_ms=round(ordered[98] * 1e3, 1),
        takeover_s=round(takeover_s, 2),
        rss_mib=round(rss, 1),
        takeover_rss_mib=round(takeover_rss, 1),
        requests_per_run=round(asked / count, 2),
        **{
            f"{name}_ms_per_run": round((seconds - used[name]) / count * 1e3, 1)
            for name, seconds in by_now.items()
        },
    )


def processor_seconds(
    server: ApiServer, operator: Operator, stub: subprocess.Popen[bytes]
) -> dict[str, float]:
    """Processor seconds used so far, by process."""
    etcd, apiserver = (processor_s(process.pid) for process in server.processes)
    return {
        "operator": operator.processor_s(),
        "apiserver": apiserver,
        "etcd": etcd,
        "benchmark": processor_s(stub.pid) + time.process_time(),
    }


@asynccontextmanager
async def connected(server: ApiServer) -> AsyncIterator[aiohttp.ClientSession]:
    """HTTP session with the API server's credentials."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    connector = aiohttp.TCPConnector(ssl=False, limit=32)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
        yield session


async def create(api: aiohttp.ClientSession, server: ApiServer, count: int) -> None:
    """Create all runs with eight concurrent clients."""

    async def some(first: int) -> None:
        for number in range(first, count, 8):
            manifest = {
                "apiVersion": "agentrl.dev/v1alpha1",
                "kind": "AgentRLRun",
                "metadata": {"name": f"run-{number}", "namespace": NAMESPACE},
                "spec": SPEC,
            }
            async with api.post(f"{server.url}/{RUNS}", json=manifest) as response:
                if response.status != 201:
                    raise click.ClickException(await response.text())

    await asyncio.gather(*(some(first) for first in range(8)))


async def change_specs(
    api: aiohttp.ClientSession, server: ApiServer, seen: Seen, count: int, changes: int
) -> list[float]:
    """Change specs of random runs. Returns the seconds until each status has the new generation."""
    latencies, draws = [], random.Random(0)
    headers = {"Content-Type": "application/merge-patch+json"}
    for number in range(changes):
        name = f"run-{draws.randrange(count)}"
        change = json.dumps({"spec": {"backoffLimit": number % 50 + 4}})
        began = time.monotonic()
        async with api.patch(
            f"{server.url}/{RUNS}/{name}", data=change, headers=headers
        ) as response:
            generation = (await response.json())["metadata"]["generation"]
        await seen.until(partial(seen.has_answered, name, generation), 30)
        latencies.append(time.monotonic() - began)
        await asyncio.sleep(0.02)
    return latencies


async def requests(api: aiohttp.ClientSession, server: ApiServer) -> float:
    """Number of answered requests to the resources that the operator uses, without watches."""
    async with api.get(f"{server.url}/metrics") as response:
        page = await response.text()
    total = 0.0
    for line in page.splitlines():
        if line.startswith("apiserver_request_total{"):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            if labels["resource"] in RESOURCES and labels["verb"] not in ("WATCH", "CONNECT"):
                total += float(line.rsplit(" ", 1)[1])
    return total


if __name__ == "__main__":
    main()
