"""The object stores of runs, read from a few threads because their clients block."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from agentrl_components.errors import StoreError
from agentrl_components.schedule.record import Decision
from agentrl_components.spec import Storage
from agentrl_components.spec.addresses import s3_location
from agentrl_components.storage import keys
from agentrl_components.storage.open import open_store
from agentrl_components.storage.records import (
    RunState,
    TrackerRecord,
    find_state,
    read_decision,
    read_tracker,
)
from agentrl_components.storage.s3.credentials import identity_keys, static_keys
from agentrl_components.storage.s3.store import S3Store
from agentrl_components.storage.store import Store
from agentrl_operator.clients.breaker import Breaker
from agentrl_operator.errors import RunStoreError
from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.resolve import is_run_prefix
from agentrl_pipelines.platform.store_access import StoreAccess, store_access

Result = TypeVar("Result")

_DELETED_PER_REQUEST = 250
"""S3 allows 1,000 keys. A slow disk needs longer for them than a client waits for an answer."""
_DELETING_THREADS = 4
_DELETION_WAIT_S = 2.0
"""A caller waits this long for a deletion. It has a worker of the controller meanwhile, which other
runs need."""
_CACHED_SERVICES = 8


class RunStores:
    """`Stores` over thread pools: one for records, and a small one for the deletion of whole runs,
    so that no other run waits while many objects are deleted. Close it after use."""

    def __init__(
        self,
        open_store: Callable[[Storage], Store],
        *,
        threads: int = 8,
        timeout_s: float = 20.0,
    ) -> None:
        """`timeout_s` is the longest time that a caller waits; the thread may work on longer."""
        self._open = open_store
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="store")
        self._deleting_threads = ThreadPoolExecutor(_DELETING_THREADS, thread_name_prefix="delete")
        self._deletions: dict[tuple[str | None, str | None], asyncio.Future[bool]] = {}
        """Deletions that are queued or going on, by URL and endpoint, and those that failed when
        their caller had stopped to wait: it learns why when it asks again."""
        self._timeout_s = timeout_s
        self._breaker = Breaker()

    async def read_state(self, storage: Storage) -> RunState | None:
        return await self._run(storage, find_state)

    async def read_decision(self, storage: Storage, phase: int) -> Decision | None:
        return await self._run(storage, lambda store: read_decision(store, phase))

    async def read_mlflow_run(self, storage: Storage) -> TrackerRecord:
        return await self._run(storage, read_tracker)

    async def write_mlflow_run(self, storage: Storage, run_id: str, uri: str) -> None:
        data = json.dumps({"run_id": run_id, "uri": uri}).encode()
        await self._run(storage, lambda store: store.replace(keys.TRACKER, data))

    async def delete_run_data(self, storage: Storage) -> bool:
        deletion = self._deletion(storage)
        await asyncio.wait({deletion}, timeout=min(self._timeout_s, _DELETION_WAIT_S))
        if not deletion.done():
            return False
        self._deletions.pop((storage.url, storage.endpoint), None)
        try:
            return deletion.result()
        except StoreError as error:
            raise RunStoreError(str(error)) from error

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._deleting_threads.shutdown(wait=False, cancel_futures=True)

    def _deletion(self, storage: Storage) -> asyncio.Future[bool]:
        """The deletion of objects of a run. There is one at a time, which goes on if its caller
        stops to wait; later callers wait for the same one."""
        key = (storage.url, storage.endpoint)

        def delete() -> bool:
            return _delete_own_keys(self._open(storage), time.monotonic() + self._timeout_s / 2)

        def forget(ended: asyncio.Future[bool]) -> None:
            # Without the call of `exception` asyncio would log an error that no caller waits for.
            if ended.cancelled() or ended.exception() is None:
                self._deletions.pop(key, None)

        if key not in self._deletions:
            loop = asyncio.get_running_loop()
            self._deletions[key] = loop.run_in_executor(self._deleting_threads, delete)
            self._deletions[key].add_done_callback(forget)
        return self._deletions[key]

    async def _run(self, storage: Storage, call: Callable[[Store], Result]) -> Result:
        service = storage.endpoint or (storage.url or "").partition(":")[0]
        loop, timeout = asyncio.get_running_loop(), asyncio.timeout(self._timeout_s)
        try:
            with self._breaker.request(service):
                async with timeout:
                    return await loop.run_in_executor(
                        self._threads, lambda: call(self._open(storage))
                    )
        except StoreError as error:
            raise RunStoreError(str(error)) from error
        except TimeoutError as error:
            told = f"no response in {self._timeout_s:g} s" if timeout.expired() else error
            raise RunStoreError(f"{storage.url}: {told}; check the object store") from None


def _delete_own_keys(store: Store, until: float) -> bool:
    """Delete only keys of the run itself, since people may have put other objects beside them, up
    to the time `until` of the monotonic clock. Returns whether none is left."""
    own = _own_keys(store)
    for first in range(0, len(own), _DELETED_PER_REQUEST):
        store.delete_many(own[first : first + _DELETED_PER_REQUEST])
        if time.monotonic() >= until:
            break
    return not own or not _own_keys(store)


def _own_keys(store: Store) -> list[str]:
    return [key for key in store.list("") if key.startswith(keys.OWN)]


class RunStoreOpener:
    """Opens the stores of runs on one platform, with the addresses and credentials of its
    configuration. Runs in the same S3 service share its connections."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._services = lru_cache(_CACHED_SERVICES)(_service)

    def open(self, storage: Storage) -> Store:
        """The store of a run: a prefix in S3, or a folder that the operator can see.

        Raises:
            StoreError: The address is not that of one run, or the platform does not list the S3
                service, or has no credentials for it.
        """
        address = storage.url or ""
        if not address.startswith("s3://"):
            return open_store(storage, Path("/nonexistent"))
        access = store_access(storage, self._platform)
        if access is None:
            raise StoreError(
                f"{storage.endpoint or 'AWS S3'} is not an object store of this platform; "
                "let an administrator add it to storage.others"
            )
        bucket, prefix = s3_location(address)
        # The operator's keys are for all namespaces, and it deletes what it finds below the prefix.
        if not is_run_prefix(prefix):
            raise StoreError(f"{address}: does not end in NAMESPACE/NAME-UID, as stores of runs do")
        return self._services(access).at(bucket, prefix)


def _service(access: StoreAccess) -> S3Store:
    """A client of an S3 service. Its timeouts are short, because the operator asks again anyway."""
    store = access.store
    return S3Store(
        bucket="",
        prefix="",
        endpoint=access.endpoint,
        region=access.region,
        credentials=static_keys(store.access_key_env, store.secret_key_env)
        if store.secret is not None
        else identity_keys(access.region),
        deadline_s=5.0,
        timeout_s=10.0,
    )
