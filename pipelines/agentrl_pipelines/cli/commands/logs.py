"""`agentrl logs NAME`: the merged logs of a run's stages on a cluster."""

from __future__ import annotations

import heapq
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any

import click

from agentrl_components.stages.names import STAGE_NAMES
from agentrl_envs.output.printable import echo
from agentrl_pipelines.cli.errors import exit_on_error
from agentrl_pipelines.cli.log_noise import NoiseFilter
from agentrl_pipelines.cli.options import option_context, option_namespace

if TYPE_CHECKING:
    from agentrl_pipelines.cli.kube_client import Cluster, Pod

COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_cyan", "bright_magenta")
POLL_S = 2.0
ENDED = ("Succeeded", "Failed")

LogLine = tuple[str, str]
"""Stage and text."""


@click.command(short_help="Print the logs of a run's stages.")
@click.argument("name")
@option_namespace
@option_context
@click.option("--stage", type=click.Choice(STAGE_NAMES), help="Only this stage.")
@click.option("--follow", "-f", is_flag=True, help="Follow the logs until the run ends.")
@click.option("--tail", type=click.IntRange(min=1), help="Last lines to print, per pod.")
@click.option(
    "--all",
    "include_noise",
    is_flag=True,
    help="Include the lines of the KFP launcher and of Argo.",
)
def logs(
    name: str,
    namespace: str | None,
    context: str | None,
    stage: str | None,
    follow: bool,
    tail: int | None,
    include_noise: bool,
) -> None:
    """Print the logs of the stages of the run NAME, merged by time.

    Covers the current phase; with -f also the following ones."""
    with exit_on_error():
        from agentrl_pipelines.cli.kube_client import Cluster

        cluster = Cluster.open(context=context, namespace=namespace)
        read = follow_logs if follow else past_logs
        lines = read(cluster, name, stage, tail, include_noise=include_noise)
        try:
            for name_of_stage, line in lines:
                known = name_of_stage in STAGE_NAMES
                colour = COLOURS[STAGE_NAMES.index(name_of_stage) if known else -1]
                echo(line, prefix=click.style(f"{name_of_stage:<9} ", fg=colour))
        except KeyboardInterrupt:
            sys.exit(130)  # Ctrl-C ends this command, not the run


def past_logs(
    cluster: Cluster,
    name: str,
    stage: str | None,
    tail: int | None = None,
    *,
    include_noise: bool = False,
) -> Iterator[LogLine]:
    """The log lines of all pods of the current phase until now, merged by time."""
    pods = _pods(cluster, cluster.get(name), stage)
    if not pods:
        echo(_no_pods_message(name, stage), err=True)
    streams = [_pod_lines(cluster, pod, tail, include_noise) for pod in pods if pod.started]
    for _, who, text in heapq.merge(*streams, key=lambda line: line[0]):
        yield who, text
    for pod in pods:
        if not pod.started:
            echo(f"{pod.stage}: not started ({pod.waits_for})", err=True)


def _pod_lines(
    cluster: Cluster, pod: Pod, tail: int | None, include_noise: bool
) -> Iterator[tuple[str, str, str]]:
    from agentrl_pipelines.cli.kube_client import NoSuchPodError

    try:
        if include_noise:
            yield from _parsed(cluster.logs(pod, tail=tail), pod.stage, include_noise)
            return
        lines = _parsed(cluster.logs(pod), pod.stage, include_noise)
        yield from lines if tail is None else deque(lines, maxlen=tail)  # the server counts noise
    except NoSuchPodError as error:
        echo(f"{pod.stage}: {error}", err=True)


def _parsed(lines: Iterable[str], who: str, include_noise: bool) -> Iterator[tuple[str, str, str]]:
    """(timestamp, stage, text) of each line; noise is left out unless `include_noise`."""
    noise = NoiseFilter()
    for line in lines:
        at, _, text = line.partition(" ")
        if not noise.is_noise(text) or include_noise:
            yield at, who, text


def follow_logs(
    cluster: Cluster,
    name: str,
    stage: str | None,
    tail: int | None = None,
    poll_s: float = POLL_S,
    *,
    include_noise: bool = False,
) -> Iterator[LogLine]:
    """Follow the log lines of all pods until the run has ended and every stream is read."""
    readers: dict[str, _Reader] = {}
    waiting: dict[str, str] = {}
    queue: Queue[LogLine] = Queue()
    run = cluster.get(name)
    while True:
        for pod in _pods_shown(cluster, run, stage):
            reader = readers.get(pod.name)
            if pod.started and reader is None:
                readers[pod.name] = _Reader(cluster, pod, queue, include_noise, tail)
            elif reader is not None and not reader.is_alive() and not pod.ended:
                after = reader.last_time
                readers[pod.name] = _Reader(cluster, pod, queue, include_noise, after=after)
            elif not pod.started and waiting.get(pod.name) != pod.waits_for:
                waiting[pod.name] = pod.waits_for
                echo(f"{pod.stage}: waiting ({pod.waits_for})", err=True)
        ended = (run.get("status") or {}).get("state") in ENDED
        yield from _lines_until(queue, time.monotonic() + poll_s)
        if ended and not any(reader.is_alive() for reader in readers.values()):
            yield from _lines_until(queue, 0.0)
            return
        run = cluster.poll(name)


def _pods_shown(cluster: Cluster, run: dict[str, Any], stage: str | None) -> list[Pod]:
    """The pods, or none while the API server does not answer."""
    from agentrl_pipelines.cli.kube_client import UnavailableError

    try:
        return _pods(cluster, run, stage)
    except UnavailableError:
        return []


class _Reader(threading.Thread):
    """Thread that follows the log of one pod. If the stream breaks off, another reader continues
    after `last_time`, the timestamp of the last line."""

    def __init__(
        self,
        cluster: Cluster,
        pod: Pod,
        queue: Queue[LogLine],
        include_noise: bool,
        tail: int | None = None,
        after: str = "",
    ) -> None:
        super().__init__(name=f"logs of {pod.name}", daemon=True)
        self._cluster, self._pod, self._queue = cluster, pod, queue
        self._include_noise, self._tail = include_noise, tail
        self.last_time = after
        self.start()

    def run(self) -> None:
        from agentrl_components.errors import RunError

        after = self.last_time
        try:
            lines = self._cluster.logs(self._pod, follow=True, tail=self._tail)
            for at, who, text in _parsed(lines, self._pod.stage, self._include_noise):
                if at > after:
                    self.last_time = at
                    self._queue.put((who, text))
        except RunError as error:
            self._queue.put(
                (self._pod.stage, f"(log stream of {self._pod.name} broke off: {error})")
            )


def _lines_until(queue: Queue[LogLine], deadline: float) -> Iterable[LogLine]:
    """The lines in the queue and those that arrive before `deadline` (monotonic seconds)."""
    while True:
        try:
            yield queue.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            return


def _pods(cluster: Cluster, run: dict[str, Any], stage: str | None) -> list[Pod]:
    kfp_run = (run.get("status") or {}).get("kfpRun")
    return cluster.pods(kfp_run, stage) if kfp_run else []


def _no_pods_message(name: str, stage: str | None) -> str:
    what = f"stage {stage} has" if stage else "no stage has"
    negation = " not" if stage else ""
    return f"{name}: {what}{negation} started in this phase; see: agentrl status {name}"
