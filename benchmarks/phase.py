"""Where a phase's wall time goes on a cluster: python benchmarks/phase.py NAME [-n NAMESPACE]

Reads the pods of a run that is done (they stay until KFP's own clean-up) and what its stages say of
their own start, and tells for every phase: pods being made and placed, KFP's
drivers, our processes starting, our work, and what lies between pods.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import click
from kubernetes import client, config
from rich.console import Console
from rich.table import Table

READY = re.compile(r"ready after ([0-9.]+) s$", re.MULTILINE)
"""What a stage prints when it begins to work: seconds since its process began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod of a phase."""

    run_id: str
    stage: str
    """Ours; KFP's own are `driver`."""
    created: datetime
    began: datetime
    """Its main container."""
    ended: datetime
    start_s: float
    """Our process's own start-up; 0 of a driver."""

    @property
    def placed_s(self) -> float:
        """From its making to its main container: scheduling, sandbox, init containers."""
        return (self.began - self.created).total_seconds()

    @property
    def main_s(self) -> float:
        """Of its main container."""
        return (self.ended - self.began).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Where its time went, in seconds. Pods side by side are each counted, so the parts may exceed
    the wall."""

    run_id: str
    wall: float
    placed: float
    drivers: float
    start: float
    work: float
    idle: float
    """No pod of ours or KFP's was at work: Argo, the API server and the kubelet were."""


@click.command()
@click.argument("name")
@click.option("-n", "--namespace", default="kubeflow", show_default=True)
@click.option("--out", default="benchmarks/results/phase.json", show_default=True)
def main(name: str, namespace: str, out: str) -> None:
    """Tell where the time of run NAME's phases went."""
    config.load_kube_config()
    pods = pods_of(client.CoreV1Api(), namespace, name)
    if not pods:
        raise click.UsageError(f"NAME: no pods of {name} are left in {namespace}")
    runs = list(dict.fromkeys(pod.run_id for pod in sorted(pods, key=lambda p: p.created)))
    phases = [phase([pod for pod in pods if pod.run_id == run]) for run in runs]
    Console().print(table(phases), stages(pods))
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    told = {"phases": [asdict(one) for one in phases]}
    told["starts"] = {pod.stage: pod.start_s for pod in pods if pod.stage != "driver"}  # type: ignore[assignment]
    Path(out).write_text(json.dumps(told, indent=1))


def pods_of(api: client.CoreV1Api, namespace: str, name: str) -> list[Pod]:
    """The pods of every KFP run of a run."""
    every = api.list_namespaced_pod(namespace, label_selector="pipeline/runid").items
    ours = {
        pod.metadata.labels["pipeline/runid"]
        for pod in every
        if pod.metadata.labels.get("agentrl.dev/run") == name
    }
    found = []
    for pod in every:
        labels = pod.metadata.labels
        states = {one.name: one.state.terminated for one in pod.status.container_statuses or []}
        done = states.get("main")
        if labels["pipeline/runid"] not in ours or done is None:
            continue
        stage = labels.get("agentrl.dev/stage", "driver")
        found.append(
            Pod(
                run_id=labels["pipeline/runid"],
                stage=stage,
                created=pod.metadata.creation_timestamp,
                began=done.started_at,
                ended=done.finished_at,
                start_s=0.0 if stage == "driver" else started(api, namespace, pod.metadata.name),
            )
        )
    return found


def started(api: client.CoreV1Api, namespace: str, pod: str) -> float:
    """Seconds that our process took before it worked, as it says."""
    told = READY.search(api.read_namespaced_pod_log(pod, namespace, container="main"))
    return float(told.group(1)) if told else 0.0


def phase(pods: Sequence[Pod]) -> Phase:
    """The account of one phase."""
    began, ended = min(p.created for p in pods), max(p.ended for p in pods)
    wall = (ended - began).total_seconds()
    ours = [pod for pod in pods if pod.stage != "driver"]
    return Phase(
        run_id=pods[0].run_id,
        wall=wall,
        placed=sum(pod.placed_s for pod in pods),
        drivers=sum(pod.main_s for pod in pods if pod.stage == "driver"),
        start=sum(pod.start_s for pod in ours),
        work=sum(pod.main_s - pod.start_s for pod in ours),
        idle=wall - covered([(pod.created, pod.ended) for pod in pods]),
    )


def covered(spans: Sequence[tuple[datetime, datetime]]) -> float:
    """Seconds in which at least one span lies."""
    total, reached = 0.0, min(begin for begin, _ in spans)
    for begin, end in sorted(spans):
        total += max(0.0, (end - max(begin, reached)).total_seconds())
        reached = max(reached, end)
    return total


def table(phases: Sequence[Phase]) -> Table:
    """A row a phase."""
    shown = Table("phase", "wall s", "pods placed", "drivers", "our start", "our work", "between")
    for number, one in enumerate(phases):
        cells = (one.wall, one.placed, one.drivers, one.start, one.work, one.idle)
        shown.add_row(str(number), *(f"{value:.0f}" for value in cells))
    return shown


def stages(pods: Sequence[Pod]) -> Table:
    """A row a stage of ours."""
    shown = Table("stage", "placed s", "our start s", "main s")
    for pod in sorted(pods, key=lambda p: p.created):
        if pod.stage != "driver":
            cells = (pod.placed_s, pod.start_s, pod.main_s)
            shown.add_row(pod.stage, *(f"{value:.1f}" for value in cells))
    return shown


if __name__ == "__main__":
    main()
