"""The control loop: observe a run, plan, execute the plan's actions, write the status. It repeats
when something changes or when the plan's time has come.

An event only says *which* run to reconcile. The plan follows from what is observed, so an event
that is lost, duplicated or late costs time and nothing else. Several workers share all runs; each
run is reconciled by one of them at a time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from agentrl_operator.api import status as statuses
from agentrl_operator.api.error_conditions import with_dependency_error, with_internal_error
from agentrl_operator.api.events import transitions
from agentrl_operator.api.resource import Resource
from agentrl_operator.api.status import Status
from agentrl_operator.clients.protocols import Clients
from agentrl_operator.controller.executor import Executor
from agentrl_operator.controller.observer import Observer
from agentrl_operator.controller.run_cache import CachedRun, Key, ResourceParser, RunCache, key_of
from agentrl_operator.controller.work_queue import WorkQueue
from agentrl_operator.errors import DependencyError, KubernetesError
from agentrl_operator.planning.actions import Action, AddFinalizer, RemoveFinalizer
from agentrl_operator.planning.observation import Servers
from agentrl_operator.planning.plan import Plan
from agentrl_operator.planning.reconcile import reconcile
from agentrl_operator.telemetry.metrics import Metrics
from agentrl_pipelines.platform.config import Platform

logger = logging.getLogger(__name__)

MAX_POLLS_PER_SECOND = 20.0
"""Limit on the reconciliations of runs that poll or are retried: the more there are, the longer
their intervals."""
MAX_RETRY_DELAY_S = 60.0
"""The longest interval of retries, unless so many runs are retried that the limit asks for more."""
RETRIES_BEFORE_STATUS = 3
"""Retries of a failed observation, after which the status says what fails."""


class Controller:
    """Reconciles all runs of an operator."""

    def __init__(
        self,
        clients: Clients,
        platform: Platform,
        *,
        metrics: Metrics | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
        workers: int = 16,
        max_polls_per_second: float = MAX_POLLS_PER_SECOND,
    ) -> None:
        self.metrics = metrics or Metrics()
        self.last_event = clock()
        self._clients = clients
        self._platform = platform
        self._now = now
        self._clock = clock
        self._workers = workers
        self._max_polls_per_second = max_polls_per_second
        self._runs = RunCache()
        self._parser = ResourceParser(platform)
        self._servers: dict[str, dict[str, Servers]] = {}
        self._queue: WorkQueue[Key] = WorkQueue(max_polls_per_second)
        self._retries: dict[Key, int] = {}
        self._observer = Observer(clients, platform, self._servers_of, clock)
        self._executor = Executor(
            clients=clients, platform=platform, count_error=self.metrics.count_error
        )
        self.metrics.observe_runs(self._runs.states, self._runs.reasons)
        self.metrics.workqueue_depth.set_function(lambda: len(self._queue))
        self.metrics.last_event_age.set_function(lambda: clock() - self.last_event)

    def record_event(self) -> None:
        """A watch has just shown something."""
        self.last_event = self._clock()

    def run_changed(self, body: Mapping[str, Any]) -> None:
        """Take in an AgentRLRun that was created or changed."""
        key = key_of(body)
        before = self._runs.get(key)
        after = self._store(body)
        if after is None:
            return
        if before is None or not before.same_content(after):
            self._retries.pop(key, None)
            self._queue.add(key)

    def run_deleted(self, uid: str) -> None:
        """Drop the AgentRLRun with this uid, which no longer exists."""
        key = self._runs.delete(uid)
        self._forget(uid)
        if key is not None:
            self._queue.cancel(key)
            self._retries.pop(key, None)

    def _forget(self, uid: str) -> None:
        """Drop what is kept of a run beside its manifest and status."""
        self._servers.pop(uid, None)
        self._observer.forget(uid)

    def servers_changed(self, uid: str, name: str, servers: Servers | None) -> None:
        """Take in a Deployment of the run with this uid. None: it no longer exists."""
        before = self._servers.get(uid, {}).get(name)
        if before == servers:
            return
        of_run = self._servers.setdefault(uid, {})
        if servers is None:
            del of_run[name]
        else:
            of_run[name] = servers
        just_created = before is None and servers is not None and servers.ready == 0
        if not just_created:
            self._add_to_queue(uid)

    def workload_changed(self, uid: str) -> None:
        """Reconcile the run with this uid: its Kueue Workload changed."""
        self._add_to_queue(uid)

    def _add_to_queue(self, uid: str) -> None:
        key = self._runs.key(uid)
        if key is not None:
            self._queue.add(key)

    def runs(self) -> frozenset[str]:
        """The uids of all cached runs."""
        return self._runs.uids()

    def servers(self) -> frozenset[tuple[str, str]]:
        """All cached Deployments: the uid of the run, and the Deployment's name."""
        return frozenset((uid, name) for uid, of_run in self._servers.items() for name in of_run)

    @asynccontextmanager
    async def run_workers(self) -> AsyncIterator[None]:
        """Run the workers while the context is open."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._process_queue()) for _ in range(self._workers)]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def _process_queue(self) -> None:
        while True:
            key = await self._queue.get()
            began = time.perf_counter()
            try:
                result = await self.reconcile(key)
            finally:
                self._queue.done(key)
            self.metrics.reconciles.labels(result).inc()
            self.metrics.reconcile_duration.observe(time.perf_counter() - began)

    async def reconcile(self, key: Key) -> str:
        """Reconcile one run. Returns the result, as the metrics label it. An unexpected error does
        not stop other runs: it is logged, shown in the status, and the run is retried."""
        run = self._runs.get(key)
        if run is None:
            return "not_found"
        resource, status = self._parser.parse(run), statuses.read(run.status)
        guard = run.guard
        with guard.errors("is retried later") as caught:
            return await self._reconcile(key, run, resource, status)
        self._retry(key)
        after = with_internal_error(status, resource, caught.error, self._now())
        with guard.errors("keeps its status, to which the error could not be written"):
            await self._write_status(key, run, resource, status, after)
        return "internal_error"

    async def _reconcile(self, key: Key, run: CachedRun, resource: Resource, status: Status) -> str:
        try:
            observation = await self._observer.observe(resource, status)
        except DependencyError as error:
            self._report(key, error)
            if self._retries.get(key, 0) >= RETRIES_BEFORE_STATUS:
                after = with_dependency_error(status, error, self._now())
                with run.guard.errors("keeps its status, to which an error could not be written"):
                    await self._write_status(key, run, resource, status, after)
            self._retry(key)
            return "dependency_error"
        for dependency in observation.unavailable:
            self.metrics.dependency_errors.labels(dependency).inc()
        plan = reconcile(resource, status, observation, self._platform, self._now())
        after, failure = await self._execute(key, resource.uid, plan)
        if failure is not None:
            after = with_dependency_error(after, failure, self._now())
        try:
            await self._write_status(key, run, resource, status, after)
        except KubernetesError as error:
            failure = error
            self._report(key, error)
        if failure is not None:
            self._retry(key)
            return "dependency_error"
        self._retries.pop(key, None)
        self._schedule(key, plan)
        return "success"

    async def _execute(
        self, key: Key, uid: str, plan: Plan
    ) -> tuple[Status, DependencyError | None]:
        """Execute the plan's actions on the run with this uid, as far as the plan says if one
        fails, and up to one that is not complete. Returns the status to write, and the error of the
        first action that failed."""
        status, failure = plan.status, None
        for number, action in enumerate((*plan.best_effort, *plan.actions)):
            run = self._runs.get(key)
            if run is None or run.uid != uid:
                return status, failure
            needed = isinstance(action, RemoveFinalizer)
            done: Status | None = status
            try:
                with run.guard.errors_of_deletion(
                    f"is deleted without {action!r}", needed=needed
                ) as caught:
                    done = await self._execute_action(run, action, status)
            except DependencyError as error:
                self._report(key, error)
                failure = failure or error
                status = plan.status_on_failure or status
                if number < len(plan.best_effort):
                    continue
                return status, failure
            if done is None:
                return status, failure
            status = done
            if caught.error is None:
                self.metrics.actions.labels(action.label).inc()
        return status, failure

    async def _execute_action(
        self, run: CachedRun, action: Action, status: Status
    ) -> Status | None:
        metadata = {"metadata": run.metadata}
        if isinstance(action, AddFinalizer):
            body = await self._clients.cluster.add_finalizer(metadata)
            if body:  # the next patch needs the new resourceVersion
                self._store(body)
            else:  # it was deleted before it had the finalizer: nothing may be started for it
                self.run_deleted(run.uid)
            return status
        return await self._executor.execute(action, self._parser.parse(run), metadata, status)

    async def _write_status(
        self, key: Key, run: CachedRun, resource: Resource, before: Status, after: Status
    ) -> None:
        """Patch what changed in the status, and create an Event for each important change."""
        change = statuses.patch(run.status, statuses.as_json(after))
        if not change or key not in self._runs:
            return
        body = await self._clients.cluster.patch_status(resource, change)
        if body is None:
            return
        self._store(body)
        if after.finished and not before.finished:
            self.metrics.runs_finished.labels(after.state).inc()
        for transition in transitions(before, after):
            logger.info("%s/%s: %s: %s", *key, transition.reason, transition.message)
            try:
                await self._clients.cluster.create_event(
                    resource, transition.kind, transition.reason, transition.message
                )
            except KubernetesError as error:
                self.metrics.count_error(error)
                logger.warning("no Event was created: %s", error)

    def _store(self, body: Mapping[str, Any]) -> CachedRun | None:
        """Cache an AgentRLRun, as `RunCache.store` does, and forget another run of its name."""
        before = self._runs.get(key_of(body))
        after = self._runs.store(body)
        if before is not None and after is not None and before.uid != after.uid:
            self._forget(before.uid)
        return after

    def _schedule(self, key: Key, plan: Plan) -> None:
        if plan.requeue_s is None or key not in self._runs:
            self._queue.cancel(key)
        elif plan.requeue_s and not plan.is_due:
            self._queue.poll_after(key, plan.requeue_s)
        else:
            self._queue.add_after(key, plan.requeue_s)

    def _retry(self, key: Key) -> None:
        tries = self._retries.get(key, 0)
        self._retries[key] = tries + 1
        longest_s = max(MAX_RETRY_DELAY_S, len(self._retries) / self._max_polls_per_second)
        self._queue.add_after(key, min(0.5 * 2.0 ** min(tries, 10), longest_s))

    def _report(self, key: Key, error: DependencyError) -> None:
        self.metrics.count_error(error)
        logger.warning("%s/%s: %s", *key, error)

    def _servers_of(self, uid: str) -> Mapping[str, Servers]:
        return dict(self._servers.get(uid, {}))
