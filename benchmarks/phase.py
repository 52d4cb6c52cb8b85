"""Breakdown of the duration of a run's phases on a cluster.

    python benchmarks/phase.py NAME [-n NAMESPACE]

Reads the pods of a finished run, which exist until KFP's clean-up, and the start-up time that each
stage logs. For each phase it reports the time for the creation and scheduling of pods, KFP's
drivers, the start-up of AgentRL's processes, their work, and the gaps between pods.
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
"""Line that a stage logs when its work begins: seconds since the start of its process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod of a phase."""

    run_id: str
    stage: str
    """Stage of AgentRL, or `driver` for KFP's own pods."""
    created: datetime
    began: datetime
    """Start of its main container."""
    ended: datetime
    start_s: float
    """Start-up time of the stage's process; 0 for a driver."""

    @property
    def placed_s(self) -> float:
        """Seconds from creation to the start of the main container: scheduling, sandbox, init
        containers."""
        return (self.began - self.created).total_seconds()

    @property
    def main_s(self) -> float:
        """Duration of the main container in seconds."""
        return (self.ended - self.began).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Durations of the parts of a phase in seconds. Concurrent pods are added up, so the parts can
    exceed the wall time."""

    run_id: str
    wall: float
    placed: float
    drivers: float
    start: float
    work: float
    idle: float
    """Time without any pod: work of Argo, the API server and the kubelet."""


@click.command()
@click.argument("name")
@click.option("-n", "--namespace", default="kubeflow", show_default=True)
@click.option("--out", default="benchmarks/results/phase.json", show_default=True)
def main(name: str, namespace: str, out: str) -> None:
    """Print the breakdown of the duration of run NAME's phases, and write it as JSON."""
    config.load_kube_config()
    pods = pods_of(client.CoreV1Api(), namespace, name)
    if not pods:
        raise click.UsageError(f"NAME: the namespace {namespace} has no pods of {name}")
    runs = list(dict.fromkeys(pod.run_id for pod in sorted(pods, key=lambda p: p.created)))
    phases = [phase([pod for pod in pods if pod.run_id == run]) for run in runs]
    Console().print(table(phases), stages(pods))
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    breakdown = {"phases": [asdict(one) for one in phases]}
    breakdown["starts"] = {pod.stage: pod.start_s for pod in pods if pod.stage != "driver"}  # type: ignore[assignment]
    Path(out).write_text(json.dumps(breakdown, indent=1))


def pods_of(api: client.CoreV1Api, namespace: str, name: str) -> list[Pod]:
    """Finished pods of all KFP runs of a run."""
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
    """Start-up seconds of a stage from its log; 0 if the log has none."""
    line = READY.search(api.read_namespaced_pod_log(pod, namespace, container="main"))
    return float(line.group(1)) if line else 0.0


def phase(pods: Sequence[Pod]) -> Phase:
    """Breakdown of one phase from its pods."""
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
    """Length of the union of the spans in seconds."""
    total, reached = 0.0, min(begin for begin, _ in spans)
    for begin, end in sorted(spans):
        total += max(0.0, (end - max(begin, reached)).total_seconds())
        reached = max(reached, end)
    return total


def table(phases: Sequence[Phase]) -> Table:
    """Table with one row per phase."""
    shown = Table("phase", "wall s", "scheduling", "drivers", "start-up", "work", "gaps")
    for number, one in enumerate(phases):
        cells = (one.wall, one.placed, one.drivers, one.start, one.work, one.idle)
        shown.add_row(str(number), *(f"{value:.0f}" for value in cells))
    return shown


def stages(pods: Sequence[Pod]) -> Table:
    """Table with one row per stage."""
    shown = Table("stage", "scheduling s", "start-up s", "main s")
    for pod in sorted(pods, key=lambda p: p.created):
        if pod.stage != "driver":
            cells = (pod.placed_s, pod.start_s, pod.main_s)
            shown.add_row(pod.stage, *(f"{value:.1f}" for value in cells))
    return shown


if __name__ == "__main__":
    main()
