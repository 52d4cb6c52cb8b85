"""The thread that steps vLLM, with an asyncio interface.

New requests join the batch between two steps. vLLM's engine is not thread-safe, so only this thread
uses it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from agentrl_components.errors import EngineError, RunError, WorkersLostError

R = TypeVar("R")


class VllmLoop:
    """Runs a vLLM engine in a thread. Serves one event loop."""

    def __init__(self, start: Callable[[], Any]) -> None:
        """Call `start`, which returns an `LLMEngine`, in the new thread, and wait for it."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="vllm")
        self._keys = itertools.count()
        self._new: list[tuple[str, list[int], Any]] = []
        self._cancelled: list[str] = []
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._stepping: asyncio.Task[None] | None = None
        self._failure: RunError | None = None
        self._resumed = asyncio.Event()
        """Not set while vLLM pauses."""
        self._resumed.set()
        self._adapters: Any = None
        """vLLM's `LoRARequest` that later requests use."""
        try:
            self._engine = self._thread.submit(start).result()
        except RunError:
            self._thread.shutdown()
            raise

    async def sample(self, ids: Sequence[int], params: Any) -> Any:
        """vLLM's `RequestOutput` for the prompt `ids`. Cancelling the call aborts the request.

        Raises:
            EngineError: vLLM refuses the request.
            WorkersLostError: vLLM has failed, or a process of it has died.
        """
        self.check()
        key = str(next(self._keys))
        answer = asyncio.get_running_loop().create_future()
        self._waiting[key] = answer
        self._new.append((key, list(ids), params))
        if self._stepping is None or self._stepping.done():
            self._stepping = asyncio.create_task(self._run())
            self._stepping.add_done_callback(self._stepping_ended)
        try:
            return await answer
        finally:
            if self._waiting.pop(key, None) is not None:  # cancelled
                self._new = [entry for entry in self._new if entry[0] != key]
                self._cancelled.append(key)

    def check(self) -> None:
        """Raise the error with which every request fails, if there is one."""
        if self._failure is not None:
            raise self._failure

    async def call(self, action: Callable[[Any], R]) -> R:
        """Call `action` with the engine between two steps, after aborting cancelled requests, and
        return its result."""
        cancelled, self._cancelled = self._cancelled, []

        def act() -> R:
            self._engine.abort_request(cancelled)
            return action(self._engine)

        return await asyncio.get_running_loop().run_in_executor(self._thread, act)

    @property
    def has_lost_worker(self) -> bool:
        """Whether a worker process of an engine over several devices has died."""
        executor = getattr(self._engine, "model_executor", None)
        return bool(getattr(executor, "is_failed", False))

    def pause(self) -> None:
        """Take no more steps until `resume`, after the one that is under way. `call` works on."""
        self._resumed.clear()

    def resume(self) -> None:
        """Go on with all requests."""
        self._resumed.set()

    def use_adapters(self, folder: Path, engine: Any) -> None:
        """In the thread: use the adapters in `folder` from now on, in the place of earlier ones,
        also for requests that pause."""
        from vllm.lora.request import LoRARequest

        new = LoRARequest("adapters", 1, str(folder), load_inplace=True)
        if not engine.add_lora(new):
            raise EngineError(f"vLLM did not load the adapters in {folder}")
        self._adapters = LoRARequest("adapters", 1, str(folder))  # which loads nothing again

    def fail(self, failure: RunError) -> None:
        """Answer all requests, and every later one, with `failure`."""
        self._failure = failure
        self._fail_waiting(failure)
        self.resume()

    async def close(self, stop: Callable[[Any], None]) -> None:
        """Fail pending requests with `EngineError`; call `stop` with the engine in its thread."""
        if self._stepping is not None and not self._stepping.done():
            self._stepping.cancel()
            await asyncio.wait([self._stepping])
        if self._engine is not None:
            self._failure = EngineError("the engine was closed")
            engine, self._engine = self._engine, None
            await asyncio.get_running_loop().run_in_executor(self._thread, stop, engine)
        self._thread.shutdown()

    async def _run(self) -> None:
        """Step while there are requests."""
        loop = asyncio.get_running_loop()
        while self._new or self._cancelled or self._waiting:
            await self._resumed.wait()
            new, self._new = self._new, []
            cancelled, self._cancelled = self._cancelled, []
            for key, ended in await loop.run_in_executor(
                self._thread, self._advance, new, cancelled
            ):
                answer = self._waiting.pop(key, None)
                if answer is None or answer.done():  # cancelled, or failed, meanwhile
                    continue
                if isinstance(ended, EngineError):
                    answer.set_exception(ended)
                else:
                    answer.set_result(ended)

    def _advance(
        self, new: Sequence[tuple[str, list[int], Any]], cancelled: list[str]
    ) -> list[tuple[str, Any]]:
        """In the thread: add new requests, then step until a reply ends, more have arrived, or
        stepping pauses."""
        from vllm.exceptions import VLLMClientError

        ended: list[tuple[str, Any]] = []
        for key, ids, params in new:
            try:
                prompt = {"prompt_token_ids": ids}
                self._engine.add_request(key, prompt, params, lora_request=self._adapters)
            except (ValueError, VLLMClientError) as error:
                ended.append((key, EngineError(f"vLLM refused a request: {error}")))
        if cancelled:
            self._engine.abort_request(cancelled)
        while self._engine.has_unfinished_requests():
            ended += [(out.request_id, out) for out in self._engine.step() if out.finished]
            if ended or self._new or self._cancelled or not self._resumed.is_set():
                break
        return ended

    def _stepping_ended(self, task: asyncio.Task[None]) -> None:
        """Fail all pending requests if stepping ended with an error or was cancelled."""
        error: RunError
        if task.cancelled():
            error = EngineError("the engine was closed")
        elif (cause := task.exception()) is not None:
            error = self._failure = WorkersLostError(f"vLLM failed: {cause!r}")
            error.__cause__ = cause
        else:
            return
        self._fail_waiting(error)

    def _fail_waiting(self, error: RunError) -> None:
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(error)
