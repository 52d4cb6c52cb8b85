"""How far runs have come: their stores, asked from a few threads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from agentrl_components.errors import StoreError
from agentrl_components.spec import Storage
from agentrl_components.storage import keys
from agentrl_components.storage.open import open_store
from agentrl_components.storage.records import State, Verdict, known, read_tracked, read_verdict
from agentrl_components.storage.s3 import MinioStore, credentials
from agentrl_components.storage.store import Store
from agentrl_operator.errors import StandingError

Answer = TypeVar("Answer")


class Standings:
    """The stores of all runs, asked from a few threads so that no loop waits for them."""

    def __init__(
        self,
        open_store: Callable[[Storage], Store],
        *,
        threads: int = 8,
        patience_s: float = 20.0,
    ) -> None:
        self._open = open_store
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="store")
        self._patience_s = patience_s

    async def standing(self, storage: Storage) -> State | None:
        """Where the run is. None: no stage has written yet. Raises `StandingError`."""
        return await self._ask(storage, lambda store: known(store, keys.STATE, State))

    async def verdict(self, storage: Storage, phase: int) -> Verdict | None:
        """What comes after a phase. None: not decided. Raises `StandingError`."""
        return await self._ask(storage, lambda store: read_verdict(store, phase))

    async def tracked(self, storage: Storage) -> str | None:
        """The MLflow run that shows it. Raises `StandingError`."""
        return (await self._ask(storage, read_tracked)).run_id

    async def track(self, storage: Storage, run_id: str) -> None:
        """Name the MLflow run, for the stages to go on with. Raises `StandingError`."""
        data = json.dumps({"run_id": run_id}).encode()
        await self._ask(storage, lambda store: store.replace(keys.TRACKER, data))

    async def erase(self, storage: Storage) -> bool:
        """Delete everything the run keeps, as much as there is time for; whether nothing is left.
        Raises `StandingError`."""
        return await self._ask(storage, _erased)

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _ask(self, storage: Storage, question: Callable[[Store], Answer]) -> Answer:
        loop = asyncio.get_running_loop()
        asked = loop.run_in_executor(self._threads, lambda: question(self._open(storage)))
        try:
            return await asyncio.wait_for(asked, self._patience_s)
        except StoreError as error:
            raise StandingError(str(error)) from error
        except TimeoutError:
            raise StandingError(
                f"{storage.url}: no answer in {self._patience_s:g} s; check the object store"
            ) from None


_ERASED_AT_ONCE = 2000
_SERVICES_KEPT = 8


def _erased(store: Store) -> bool:
    """Only a run's own keys go: people may have put other things beside them."""
    own = (key for key in store.list("") if key.startswith(keys.OWN))
    batch = list(islice(own, _ERASED_AT_ONCE))
    for key in batch:
        store.delete(key)
    return len(batch) < _ERASED_AT_ONCE


def opened(storage: Storage) -> Store:
    """The store of a run; where it is not S3, a folder that the operator can see."""
    if not (storage.url or "").startswith("s3://"):
        return open_store(storage, Path("/nonexistent"))
    url = urlsplit(storage.url or "")
    variables = (storage.access_key_env, storage.secret_key_env)
    return _service(storage.endpoint, storage.region, *variables).at(
        url.netloc, url.path.strip("/")
    )


@lru_cache(_SERVICES_KEPT)
def _service(
    endpoint: str | None, region: str | None, access_key_env: str, secret_key_env: str
) -> MinioStore:
    """An S3 service: runs share the connections to it. Gives up fast: the operator asks again
    anyway."""
    return MinioStore(
        bucket="",
        prefix="",
        endpoint=endpoint,
        region=region,
        credentials=credentials(access_key_env, secret_key_env),
        deadline_s=5.0,
        timeout_s=10.0,
    )
