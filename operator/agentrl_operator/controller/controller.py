"""Keeps every run as its manifest says: looks, decides, acts, tells; again when something happens
or the time has come.

Events only say *that* a run is to be looked at. What to do follows from what is there, so an event
that is lost, doubled or late costs time and nothing else. A few workers share all runs; a run is
looked at by one of them at a time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from agentrl_operator.api import status as statuses
from agentrl_operator.api.conditions import Kind, Reason, Truth
from agentrl_operator.api.events import transitions
from agentrl_operator.api.resource import Resource
from agentrl_operator.api.status import Status
from agentrl_operator.clients.protocols import Clients
from agentrl_operator.controller.executor import Performer
from agentrl_operator.controller.observer import Observer
from agentrl_operator.controller.run_cache import Known, Manifests
from agentrl_operator.controller.work_queue import WorkQueue
from agentrl_operator.errors import KfpError, KubernetesError, RunStoreError, Trouble
from agentrl_operator.planning.actions import Action, AddFinalizer
from agentrl_operator.planning.observation import Servers
from agentrl_operator.planning.plan import Plan
from agentrl_operator.planning.reconcile import reconcile
from agentrl_operator.telemetry.metrics import Metrics
from agentrl_pipelines.platform.config import Platform

logger = logging.getLogger(__name__)

Key = tuple[str, str]
"""Namespace and name."""
LOOKS_A_SECOND = 20.0
"""At runs that merely go on: with many of them, each is looked at less often."""
LONGEST_RETRY_S = 60.0


class Controller:
    """All runs of an operator."""

    def __init__(
        self,
        clients: Clients,
        platform: Platform,
        *,
        metrics: Metrics | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
        workers: int = 16,
    ) -> None:
        self.metrics = metrics or Metrics()
        self.last_event = clock()
        self._around = clients
        self._platform = platform
        self._now = now
        self._clock = clock
        self._workers = workers
        self._known: dict[Key, Known] = {}
        self._keys: dict[str, Key] = {}
        self._manifests = Manifests(platform)
        self._servers: dict[str, dict[str, Servers]] = {}
        self._queue: WorkQueue[Key] = WorkQueue()
        self._retries: dict[Key, int] = {}
        self._observer = Observer(clients, platform, self._servers_of, clock)
        self._performer = Performer(around=clients, platform=platform)
        self.metrics.runs_by_state(self._states)
        self.metrics.workqueue_depth.set_function(lambda: len(self._queue))
        self.metrics.last_event_age.set_function(lambda: clock() - self.last_event)

    def seen(self, body: Mapping[str, Any]) -> None:
        """A run is, or has become, like this."""
        self.last_event = self._clock()
        key = (body["metadata"]["namespace"], body["metadata"]["name"])
        before = self._known.get(key)
        if not self._learn(key, body):
            return
        if before is None or not before.like(self._known[key]):
            self._retries.pop(key, None)
            self._queue.add(key)

    def gone(self, namespace: str, name: str) -> None:
        """A run is no more."""
        self.last_event = self._clock()
        key = (namespace, name)
        self._queue.cancel(key)
        self._retries.pop(key, None)
        known = self._known.pop(key, None)
        if known is not None:
            self._keys.pop(known.uid, None)
            self._servers.pop(known.uid, None)
            self._observer.forget(known.uid)

    def servers_seen(self, uid: str, name: str, servers: Servers | None) -> None:
        """A Deployment of the run with this uid is like this. None: it is no more."""
        self.last_event = self._clock()
        of_run = self._servers.setdefault(uid, {})
        before = of_run.get(name)
        if before == servers:
            return
        if servers is None:
            del of_run[name]
        else:
            of_run[name] = servers
        just_made = before is None and servers is not None and servers.ready == 0
        if uid in self._keys and not just_made:
            self._queue.add(self._keys[uid])

    def workload_seen(self, uid: str) -> None:
        """Something has happened to the Workload of the run with this uid."""
        self.last_event = self._clock()
        if uid in self._keys:
            self._queue.add(self._keys[uid])

    def keys(self) -> frozenset[Key]:
        """Every run that is known."""
        return frozenset(self._known)

    def servers(self) -> frozenset[tuple[str, str]]:
        """Every Deployment that is known: the uid of its run, and its name."""
        return frozenset((uid, name) for uid, of_run in self._servers.items() for name in of_run)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """The workers work meanwhile."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._work()) for _ in range(self._workers)]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def _work(self) -> None:
        while True:
            key = await self._queue.take()
            began = time.perf_counter()
            try:
                result = await self.look(key)
            except Exception:  # one run's bug must not stop the others
                logger.exception("a bug: %s/%s is tried again later", *key)
                result = "internal_error"
                self._again(key)
            finally:
                self._queue.done(key)
            self.metrics.reconciles.labels(result).inc()
            self.metrics.reconcile_duration.observe(time.perf_counter() - began)

    async def look(self, key: Key) -> str:
        """Look at one run and do what is to be done; how it went, in a word."""
        known = self._known.get(key)
        if known is None:
            return "not_found"
        resource, status = self._manifests.resource(known), statuses.read(known.status)
        try:
            observed = await self._observer.look(resource, status)
        except Trouble as trouble:
            self._note(key, trouble)
            self._again(key)
            return "dependency_error"
        for neighbour in observed.unavailable:
            self.metrics.dependency_errors.labels(neighbour).inc()
        plan = reconcile(resource, status, observed, self._platform, self._now())
        after, failed = await self._act(key, plan)
        if failed is not None:
            after = _troubled(after, failed, self._now())
        try:
            await self._tell(key, known, resource, status, after)
        except KubernetesError as error:
            failed = error
            self._note(key, error)
        if failed is not None:
            self._again(key)
            return "dependency_error"
        self._retries.pop(key, None)
        self._schedule(key, plan, after)
        return "success"

    async def _act(self, key: Key, plan: Plan) -> tuple[Status, Trouble | None]:
        status = plan.status
        for action in plan.actions:
            known = self._known.get(key)
            if known is None:
                return status, None
            try:
                status = await self._perform(key, known, action, status)
            except Trouble as trouble:
                self._note(key, trouble)
                return status, trouble
            self.metrics.actions.labels(type(action).__name__).inc()
        return status, None

    async def _perform(self, key: Key, known: Known, action: Action, status: Status) -> Status:
        if isinstance(action, AddFinalizer):  # its answer is the newest version, for the next patch
            body = await self._around.cluster.add_finalizer({"metadata": known.metadata})
            if body:
                self._learn(key, body)
            else:  # deleted before it was held: nothing may be started for it
                self.gone(*key)
            return status
        at, resource = {"metadata": known.metadata}, self._manifests.resource(known)
        return await self._performer.perform(action, resource, at, status)

    async def _tell(
        self, key: Key, known: Known, resource: Resource, before: Status, after: Status
    ) -> None:
        """Write what has changed, and an Event of each change that people wait for."""
        change = statuses.patch(known.status, statuses.written(after))
        if not change or key not in self._known:
            return
        body = await self._around.cluster.patch_status(resource, change)
        if body is None:
            return
        if key in self._known:
            self._learn(key, body)
        for transition in transitions(before, after):
            logger.info("%s/%s: %s: %s", *key, transition.reason, transition.message)
            try:
                await self._around.cluster.create_event(
                    resource, transition.kind, transition.reason, transition.message
                )
            except KubernetesError as error:
                logger.warning("no Event: %s", error)

    def _learn(self, key: Key, body: Mapping[str, Any]) -> bool:
        """Take in a newer version; whether it was newer."""
        metadata, before = body["metadata"], self._known.get(key)
        version, uid = int(metadata["resourceVersion"]), metadata["uid"]
        if before is not None and before.uid == uid and before.version >= version:
            return False
        self._known[key] = Known.of(body)
        self._keys[uid] = key
        return True

    def _schedule(self, key: Key, plan: Plan, status: Status) -> None:
        if plan.requeue_s is None or key not in self._known:
            self._queue.cancel(key)
            return
        delay_s = plan.requeue_s
        if (
            status.has_condition(Kind.PROGRESSING, "True", Reason.RUNNING, Reason.SUBMITTING)
            and delay_s
        ):
            delay_s = max(delay_s, len(self._known) / LOOKS_A_SECOND)
        self._queue.later(key, delay_s)

    def _again(self, key: Key) -> None:
        tries = self._retries.get(key, 0)
        self._retries[key] = tries + 1
        self._queue.later(key, min(0.5 * 2.0 ** min(tries, 10), LONGEST_RETRY_S))

    def _note(self, key: Key, trouble: Trouble) -> None:
        neighbour = trouble.dependency
        self.metrics.dependency_errors.labels(neighbour).inc()
        logger.warning("%s/%s: %s", *key, trouble)

    def _servers_of(self, uid: str) -> Mapping[str, Servers]:
        return dict(self._servers.get(uid, {}))

    def _states(self) -> Iterator[str]:
        return (known.state for known in list(self._known.values()))


def _troubled(status: Status, trouble: Trouble, now: datetime) -> Status:
    """A neighbour's failure, shown where people look."""
    if isinstance(trouble, KubernetesError) and trouble.status in (0, 409):
        return status  # a race or a restart of the API server itself: the next look is enough
    truth: Truth = "Unknown" if trouble.retryable else "False"
    if isinstance(trouble, KfpError):
        reason = Reason.KFP_UNAVAILABLE if trouble.retryable else Reason.KFP_REFUSED
    elif isinstance(trouble, RunStoreError):
        reason = Reason.STORE_UNAVAILABLE
    else:
        reason = Reason.KUBERNETES_REFUSED
    return status.with_progressing(truth, reason, str(trouble), now)
