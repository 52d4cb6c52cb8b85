"""The operator as a whole: watches, workers, a heartbeat and probes in one loop. All but the probes
begin when it holds the Lease, where there is to be one."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

import kopf

from agentrl_operator.clients.protocols import Neighbours
from agentrl_operator.controller import watches
from agentrl_operator.controller.controller import Controller
from agentrl_operator.controller.relist import Relist
from agentrl_operator.errors import KubernetesError
from agentrl_operator.leader_election.elector import Leadership
from agentrl_operator.telemetry.probes import Health, probed
from agentrl_pipelines.platform.config import Platform

logger = logging.getLogger(__name__)

HEARTBEAT_S = 10.0
BEATS_A_RELIST = 30
SERVED_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the operator is run."""

    namespaces: tuple[str, ...] = ()
    """Those to serve. None given: all of them."""
    host: str = "0.0.0.0"
    port: int = 8080
    """Of the probes; 0: the system chooses."""
    workers: int = 16


async def operate(
    neighbours: Neighbours,
    platform: Platform,
    options: Options,
    *,
    leadership: Leadership | None = None,
    stop: asyncio.Event | None = None,
    ready: asyncio.Event | None = None,
) -> None:
    """Until a signal, or until `stop` is set. `ready` is set when the watches run. `leadership`:
    whether this operator is the one to act; none: it is."""
    controller = Controller(neighbours, platform, workers=options.workers)
    health = Health(lambda: controller.last_event, controller.metrics)
    stop, ready = stop or asyncio.Event(), ready or asyncio.Event()

    async def stopped() -> None:
        stop.set()  # a signal is Kopf's own affair: it would wait for who waits for this
        if leadership is not None:
            await leadership.step_down()

    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(probed(health, options.host, options.port))
        logger.info("probes and metrics on port %d", port)
        if leadership is not None:
            await stack.enter_async_context(leadership.campaign(health.waits))
            await _first(leadership.held, stop)
        if stop.is_set():
            return
        health.acts()
        await stack.enter_async_context(controller.working())
        stack.push_async_callback(stopped)
        relist = Relist(
            controller=controller, cluster=neighbours.cluster, namespaces=options.namespaces
        )
        beating = asyncio.create_task(_heartbeat(relist, health, ready))
        stack.callback(beating.cancel)
        await _served(relist, stop)
        if stop.is_set():
            return
        await kopf.operator(
            registry=watches.watched(
                controller,
                workloads=platform.kueue.admission == "run",
                stops=stopped,
            ),
            settings=watches.settings(namespaced=bool(options.namespaces)),
            standalone=True,
            clusterwide=not options.namespaces,
            namespaces=options.namespaces,
            stop_flag=stop,
            ready_flag=ready,
        )


async def _first(*events: asyncio.Event) -> None:
    """Wait until one of them is set."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


async def _served(relist: Relist, stop: asyncio.Event) -> None:
    """Wait for Kubernetes and for the resource's definition, unless told to stop: Kopf only
    watches, in a namespace of its own, what is defined when it starts. Then look which servers
    there are already."""
    while not stop.is_set():
        try:
            await relist.answered()
            await relist.servers()
            return
        except KubernetesError as error:
            logger.warning("waiting for the API of AgentRLRuns: %s", error)
            with suppress(TimeoutError):
                async with asyncio.timeout(SERVED_S):
                    await stop.wait()


async def _heartbeat(relist: Relist, health: Health, ready: asyncio.Event) -> None:
    """Ask Kubernetes now and then whether it is there, and, less often, what there is."""
    await ready.wait()
    health.started = True
    beat = 0
    while True:
        beat += 1
        try:
            if beat % BEATS_A_RELIST:
                await relist.answered()
            else:
                await relist.runs()
                await relist.servers()
            health.answered()
        except KubernetesError as error:
            logger.warning("no heartbeat: %s", error)
        await asyncio.sleep(HEARTBEAT_S)
