"""The operator's tasks in one event loop: watches, workers, heartbeat, probes and leader election.

With leader election, everything but the probes starts once this process is the leader.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

import kopf

from agentrl_envs.http.listening import ALL_ADDRESSES
from agentrl_operator.clients.protocols import Clients
from agentrl_operator.controller import watches
from agentrl_operator.controller.controller import Controller
from agentrl_operator.controller.error_guard import contained
from agentrl_operator.controller.watches import Relist
from agentrl_operator.errors import KubernetesError
from agentrl_operator.leader_election.elector import LeaderElector
from agentrl_operator.telemetry.probes import Health, probe_server
from agentrl_pipelines.platform.config import Platform

logger = logging.getLogger(__name__)

HEARTBEAT_PERIOD_S = 10.0
HEARTBEATS_PER_RELIST = 30
STARTUP_RETRY_PERIOD_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings of the operator process."""

    namespaces: tuple[str, ...] = ()
    """Namespaces to watch; empty: all."""
    host: str = ALL_ADDRESSES
    """Address on which the probes listen: see `listening_socket`."""
    port: int = 8080
    """Port of the probes; 0: chosen by the system."""
    workers: int = 16
    """Number of runs that are reconciled at the same time."""


async def operate(
    clients: Clients,
    platform: Platform,
    options: Options,
    *,
    elector: LeaderElector | None = None,
    stop: asyncio.Event | None = None,
    ready: asyncio.Event | None = None,
) -> None:
    """Run the operator until a signal arrives or `stop` is set. `ready` is set once the watches are
    established. Without `elector` this process is the leader."""
    controller = Controller(clients, platform, workers=options.workers)
    health = Health(lambda: controller.last_event, controller.metrics)
    stop, ready = stop or asyncio.Event(), ready or asyncio.Event()

    async def shut_down() -> None:
        stop.set()  # Kopf handles signals, and would deadlock waiting for this handler
        if elector is not None:
            await elector.step_down()

    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(probe_server(health, options.host, options.port))
        logger.info("serving probes and metrics on port %d", port)
        if elector is not None:
            await stack.enter_async_context(elector.campaign(health.set_standby))
            await _wait_for_any(elector.leading, stop)
        if stop.is_set():
            return
        health.set_leading()
        await stack.enter_async_context(controller.run_workers())
        stack.push_async_callback(shut_down)
        relist = Relist(
            controller=controller, cluster=clients.cluster, namespaces=options.namespaces
        )
        readable = await wait_for_api(relist, stop)
        if readable is None:
            return
        heartbeat = asyncio.create_task(send_heartbeats(readable, health, ready, stop))
        stack.callback(heartbeat.cancel)
        handlers = watches.handlers(
            controller, workloads=platform.kueue.admission == "run", stop=shut_down
        )
        await _watch(handlers, readable.namespaces, stop, ready)


async def _watch(
    handlers: kopf.OperatorRegistry,
    namespaces: tuple[str, ...],
    stop: asyncio.Event,
    ready: asyncio.Event,
) -> None:
    await kopf.operator(
        registry=handlers,
        settings=watches.settings(namespaced=bool(namespaces)),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
        stop_flag=stop,
        ready_flag=ready,
    )


async def _wait_for_any(*events: asyncio.Event) -> None:
    tasks = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


async def wait_for_api(relist: Relist, stop: asyncio.Event) -> Relist | None:
    """Wait until the API server serves AgentRLRuns, or until `stop` is set: with a fixed list of
    namespaces Kopf watches only what is defined when it starts. Then list the Deployments that
    exist. Returns `relist` with the namespaces that may be read; None: `stop` is set."""
    while not stop.is_set():
        try:
            readable = await relist.with_readable()
            await readable.ping()
            await readable.deployments()
            for namespace, error in readable.refused.items():
                logger.warning("the runs in %s are not operated: %s", namespace, error)
            return readable
        except KubernetesError as error:
            logger.warning("waiting for the AgentRLRun API: %s", error)
            with suppress(TimeoutError):
                async with asyncio.timeout(STARTUP_RETRY_PERIOD_S):
                    await stop.wait()
    return None


async def send_heartbeats(
    relist: Relist, health: Health, ready: asyncio.Event, stop: asyncio.Event
) -> None:
    """Check regularly that the API server answers, and less often list all objects again. Starts
    when `ready` is set and runs until it is cancelled, whatever error occurs. Sets `stop` if other
    namespaces than before may be read: a process watches those that it started with."""
    await ready.wait()
    health.watching = True
    beat = 0
    while True:
        beat += 1
        try:
            # Without heartbeats the process would work on, but not be ready any more.
            with contained("heartbeat", "failed", expected=(KubernetesError,)) as caught:
                if beat % HEARTBEATS_PER_RELIST:
                    await relist.ping()
                elif (now := await relist.with_readable()).namespaces != relist.namespaces:
                    names = ", ".join(now.namespaces)
                    logger.warning("only these namespaces may be read now: %s; restarting", names)
                    stop.set()
                else:
                    await relist.runs()
                    await relist.deployments()
            if caught.error is None:
                health.record_response()
        except KubernetesError as error:
            logger.warning("heartbeat failed: %s", error)
        await asyncio.sleep(HEARTBEAT_PERIOD_S)
