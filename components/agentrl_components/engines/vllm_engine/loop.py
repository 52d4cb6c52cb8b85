"""The thread that steps vLLM: prompts in, finished replies out, as awaitables.

Whatever has arrived joins the batch between two steps. Nothing else ever touches vLLM's engine,
which is not thread-safe.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from agentrl_components.errors import EngineError, RunError

R = TypeVar("R")


class VllmLoop:
    """Serves one event loop."""

    def __init__(self, start: Callable[[], Any]) -> None:
        """`start` makes the `LLMEngine`, in the thread that will step it. Blocks until it has."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="vllm")
        self._keys = itertools.count()
        self._fresh: list[tuple[str, list[int], Any]] = []
        self._dropped: list[str] = []
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._pump: asyncio.Task[None] | None = None
        self._failure: EngineError | None = None
        try:
            self._engine = self._thread.submit(start).result()
        except RunError:
            self._thread.shutdown()
            raise

    async def sample(self, ids: Sequence[int], params: Any) -> Any:
        """vLLM's `RequestOutput` for the prompt `ids`. Cancelling drops the request.

        Raises `EngineError` when vLLM refuses the request or has failed.
        """
        if self._failure is not None:
            raise self._failure
        key = str(next(self._keys))
        answer = asyncio.get_running_loop().create_future()
        self._waiting[key] = answer
        self._fresh.append((key, list(ids), params))
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._run())
            self._pump.add_done_callback(self._settle)
        try:
            return await answer
        finally:
            if self._waiting.pop(key, None) is not None:  # cancelled
                self._fresh = [entry for entry in self._fresh if entry[0] != key]
                self._dropped.append(key)

    async def call(self, action: Callable[[Any], R]) -> R:
        """What `action` returns, given the engine, between two steps. What was dropped is over."""
        dropped, self._dropped = self._dropped, []

        def act() -> R:
            self._engine.abort_request(dropped)
            return action(self._engine)

        return await asyncio.get_running_loop().run_in_executor(self._thread, act)

    async def close(self, stop: Callable[[Any], None]) -> None:
        """End requests under way with an `EngineError`; let `stop` end the engine in its thread."""
        if self._pump is not None and not self._pump.done():
            self._pump.cancel()
            await asyncio.wait([self._pump])
        if self._engine is not None:
            self._failure = EngineError("the engine was closed")
            engine, self._engine = self._engine, None
            await asyncio.get_running_loop().run_in_executor(self._thread, stop, engine)
        self._thread.shutdown()

    async def _run(self) -> None:
        """Step for as long as somebody waits."""
        loop = asyncio.get_running_loop()
        while self._fresh or self._dropped or self._waiting:
            fresh, self._fresh = self._fresh, []
            dropped, self._dropped = self._dropped, []
            for key, ended in await loop.run_in_executor(
                self._thread, self._advance, fresh, dropped
            ):
                answer = self._waiting.pop(key, None)
                if answer is None:  # dropped meanwhile
                    continue
                if isinstance(ended, EngineError):
                    answer.set_exception(ended)
                else:
                    answer.set_result(ended)

    def _advance(
        self, fresh: Sequence[tuple[str, list[int], Any]], dropped: list[str]
    ) -> list[tuple[str, Any]]:
        """In the thread: take in what is new, then step until a reply ends or more has arrived."""
        from vllm.exceptions import VLLMClientError

        ended: list[tuple[str, Any]] = []
        for key, ids, params in fresh:
            try:
                self._engine.add_request(key, {"prompt_token_ids": ids}, params)
            except (ValueError, VLLMClientError) as error:
                ended.append((key, EngineError(f"vLLM refused a request: {error}")))
        if dropped:
            self._engine.abort_request(dropped)
        while self._engine.has_unfinished_requests():
            ended += [(out.request_id, out) for out in self._engine.step() if out.finished]
            if ended or self._fresh or self._dropped:
                break
        return ended

    def _settle(self, pump: asyncio.Task[None]) -> None:
        """Nobody waits for a pump that has ended early."""
        if pump.cancelled():
            error = EngineError("the engine was closed")
        elif (cause := pump.exception()) is not None:
            error = self._failure = EngineError(f"vLLM failed: {cause!r}")
            error.__cause__ = cause
        else:
            return
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(error)
