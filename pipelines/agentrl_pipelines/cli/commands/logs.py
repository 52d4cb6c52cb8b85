"""`agentrl logs NAME`: what the stages of a run on a cluster say, side by side."""

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

from agentrl_components.stages import NAMES as STAGES
from agentrl_pipelines.cli.errors import exit_on_error
from agentrl_pipelines.cli.log_noise import Chatter

if TYPE_CHECKING:
    from agentrl_pipelines.cli.kube_client import Cluster, Pod

COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_cyan", "bright_magenta")
POLL_S = 2.0
ENDED = ("Succeeded", "Failed")

Said = tuple[str, str]
"""Who, and a line."""


@click.command()
@click.argument("name")
@click.option("--namespace", "-n", help="Default: that of the kubeconfig's context.")
@click.option("--context", help="A context of the kubeconfig. Default: the current one.")
@click.option("--stage", type=click.Choice(STAGES), help="Of this stage alone.")
@click.option("--follow", "-f", is_flag=True, help="Go on until the run ends.")
@click.option("--tail", type=click.IntRange(min=1), help="Lines of the past, for each pod.")
@click.option(
    "--all", "everything", is_flag=True, help="With what Kubeflow and Argo say around it."
)
def logs(
    name: str,
    namespace: str | None,
    context: str | None,
    stage: str | None,
    follow: bool,
    tail: int | None,
    everything: bool,
) -> None:
    """Print what the stages of the run NAME write, in the order in which they wrote it.

    Of the phase that the run is in; with -f also of those that follow."""
    with exit_on_error():
        from agentrl_components.reporting.printable import clean
        from agentrl_pipelines.cli.kube_client import Cluster

        cluster = Cluster.open(context=context, namespace=namespace)
        choose = followed if follow else past
        said = choose(cluster, name, stage, tail, everything=everything)
        try:
            for who, line in said:
                colour = COLOURS[STAGES.index(who) if who in STAGES else -1]
                click.echo(click.style(f"{who:<9} ", fg=colour) + clean(line))
        except KeyboardInterrupt:
            sys.exit(130)  # whoever stops to look does not stop the run


def past(
    cluster: Cluster,
    name: str,
    stage: str | None,
    tail: int | None = None,
    *,
    everything: bool = False,
) -> Iterator[Said]:
    """What was said until now, by all pods together, by the time it was said."""
    pods = _pods(cluster, cluster.get(name), stage)
    if not pods:
        click.echo(_silence(name, stage), err=True)
    timed = [_timed(cluster, pod, tail, everything) for pod in pods if pod.began]
    for _, who, line in heapq.merge(*timed, key=lambda said: said[0]):
        yield who, line
    for pod in pods:
        if not pod.began:
            click.echo(f"{pod.stage}: has not started ({pod.waits_for})", err=True)


def _timed(
    cluster: Cluster, pod: Pod, tail: int | None, everything: bool
) -> Iterable[tuple[str, str, str]]:
    if everything:
        return _spoken(cluster.logs(pod, tail=tail), pod.stage, everything)
    lines = _spoken(cluster.logs(pod), pod.stage, everything)
    return lines if tail is None else deque(lines, maxlen=tail)  # the last of them may be chatter


def _spoken(lines: Iterable[str], who: str, everything: bool) -> Iterator[tuple[str, str, str]]:
    """When it was said, by whom, and the line; what is around it only with `everything`."""
    chatter = Chatter()
    for line in lines:
        at, _, text = line.partition(" ")
        if not chatter.has(text) or everything:
            yield at, who, text


def followed(
    cluster: Cluster,
    name: str,
    stage: str | None,
    tail: int | None = None,
    poll_s: float = POLL_S,
    *,
    everything: bool = False,
) -> Iterator[Said]:
    """What is said until the run has ended and every pod has said all it had to say."""
    readers: dict[str, _Reader] = {}
    waiting: dict[str, str] = {}
    queue: Queue[Said] = Queue()
    while True:
        run = cluster.get(name)
        for pod in _pods(cluster, run, stage):
            reader = readers.get(pod.name)
            if pod.began and reader is None:
                readers[pod.name] = _Reader(cluster, pod, queue, everything, tail)
            elif reader is not None and not reader.is_alive() and not pod.ended:
                after = reader.heard
                readers[pod.name] = _Reader(cluster, pod, queue, everything, after=after)
            elif not pod.began and waiting.get(pod.name) != pod.waits_for:
                waiting[pod.name] = pod.waits_for
                click.echo(f"{pod.stage}: waits ({pod.waits_for})", err=True)
        ended = (run.get("status") or {}).get("state") in ENDED
        yield from _until(queue, time.monotonic() + poll_s)
        if ended and not any(reader.is_alive() for reader in readers.values()):
            yield from _until(queue, 0.0)
            return


class _Reader(threading.Thread):
    """Follows one pod until its stream ends. Where that broke off, another goes on after the time
    that was `heard` last."""

    def __init__(
        self,
        cluster: Cluster,
        pod: Pod,
        queue: Queue[Said],
        everything: bool,
        tail: int | None = None,
        after: str = "",
    ) -> None:
        super().__init__(name=f"logs of {pod.name}", daemon=True)
        self._cluster, self._pod, self._queue = cluster, pod, queue
        self._everything, self._tail = everything, tail
        self.heard = after
        self.start()

    def run(self) -> None:
        from agentrl_components.errors import RunError

        after = self.heard
        try:
            lines = self._cluster.logs(self._pod, follow=True, tail=self._tail)
            for at, who, text in _spoken(lines, self._pod.stage, self._everything):
                if at > after:
                    self.heard = at
                    self._queue.put((who, text))
        except RunError as error:
            self._queue.put((self._pod.stage, f"(the logs of {self._pod.name} broke off: {error})"))


def _until(queue: Queue[Said], deadline: float) -> Iterable[Said]:
    """What comes until then, and what is there already."""
    while True:
        try:
            yield queue.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            return


def _pods(cluster: Cluster, run: dict[str, Any], stage: str | None) -> list[Pod]:
    kfp_run = (run.get("status") or {}).get("kfpRun")
    return cluster.pods(kfp_run, stage) if kfp_run else []


def _silence(name: str, stage: str | None) -> str:
    what = f"no pod of stage {stage}" if stage else "no stage"
    return f"{name}: {what} has begun in this phase; see: agentrl status {name}"
