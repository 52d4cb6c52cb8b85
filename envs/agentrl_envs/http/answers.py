"""Answers of servers, for clients that do not trust them: bounded, and never decompressed.

    httpx.AsyncClient(headers=NOT_COMPRESSED, event_hooks={"response": [bound_async]})

A server that runs what a model wrote may send anything. A compressed answer of some kilobytes can
unpack to gigabytes, so none is asked for, and none is read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx

from agentrl_envs.http.received import short

NOT_COMPRESSED = {"accept-encoding": "identity"}
"""Headers of requests."""

MAX_ANSWER_BYTES = 16 << 20
"""Bytes of an answer, unless the request allows others in its extension `MAX_BYTES`."""

MAX_BYTES = "agentrl_max_bytes"


class AnswerError(Exception):
    """An answer that is not read: it is too large, or compressed."""


async def bound_async(response: httpx.Response) -> None:
    """A hook for the responses of `httpx.AsyncClient`. Raises `AnswerError` for one that is
    compressed; reading one that is too large does so."""
    assert isinstance(response.stream, httpx.AsyncByteStream)
    response.stream = _AsyncBounded(response.stream, _allowed(response))


def bound(response: httpx.Response) -> None:
    """As `bound_async`, for `httpx.Client`."""
    assert isinstance(response.stream, httpx.SyncByteStream)
    response.stream = _Bounded(response.stream, _allowed(response))


def _allowed(response: httpx.Response) -> int:
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise AnswerError(f"the answer is compressed ({short(encoding)}), which was not asked for")
    allowed: int = response.request.extensions.get(MAX_BYTES, MAX_ANSWER_BYTES)
    return allowed


class _Counter:
    """Counts bytes. Raises `AnswerError` beyond `allowed`."""

    def __init__(self, allowed: int) -> None:
        self._allowed, self._received = allowed, 0

    def add(self, chunk: bytes) -> bytes:
        self._received += len(chunk)
        if self._received > self._allowed:
            raise AnswerError(f"the answer is larger than {self._allowed >> 20} MiB")
        return chunk


class _AsyncBounded(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream, allowed: int) -> None:
        self._stream, self._counter = stream, _Counter(allowed)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            yield self._counter.add(chunk)

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Bounded(httpx.SyncByteStream):
    def __init__(self, stream: httpx.SyncByteStream, allowed: int) -> None:
        self._stream, self._counter = stream, _Counter(allowed)

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            yield self._counter.add(chunk)

    def close(self) -> None:
        self._stream.close()
