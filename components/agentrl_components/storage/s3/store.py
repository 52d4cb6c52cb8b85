"""Object store in S3 or MinIO: one object per key under a prefix.

S3 creates objects atomically. `If-None-Match: *` makes a put fail if the object exists; the header
is sent with the request that creates the object, which is the last one of a multi-part upload. A
check before the put covers services that ignore the header.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from urllib.parse import parse_qs, urlsplit
from xml.etree.ElementTree import ParseError

import tenacity
import urllib3
from minio import Minio
from minio.credentials import Provider
from minio.deleteobjects import DeleteObject
from minio.error import InvalidResponseError, MinioException, S3Error, ServerError

from agentrl_components.errors import StoreError
from agentrl_components.storage.s3.pools import EnvironmentPool
from agentrl_components.storage.store import absent_error, conflict_error, is_key, valid_key

T = TypeVar("T")

_PART_SIZE = 64 << 20
_CHUNK = 1 << 20
_EXISTS = {"PreconditionFailed"}
_ABSENT = {"NoSuchKey", "NoSuchObject"}
_TRANSIENT = {
    "ConditionalRequestConflict",
    "NoSuchUpload",  # the object was created, and the answer got lost; or the upload was cleared
    "OperationAborted",
    "RequestTimeout",
}
"""S3 error codes of failures that a retry may resolve, although their HTTP status does not say
so."""
_TRANSIENT_OF_ONE = {*_TRANSIENT, "InternalError", "ServiceUnavailable", "SlowDown"}
"""Such codes in an answer about several objects, which has the status 200."""
_TRANSIENT_STATUS = (408, 429, 500, *range(502, 600))
"""HTTP statuses of failures that a retry may resolve. Services give them codes of their own."""
_PART_RETRIES = urllib3.Retry(
    total=8,
    backoff_factor=0.5,
    backoff_max=30.0,
    status_forcelist=_TRANSIENT_STATUS,
    allowed_methods=("PUT",),
    raise_on_status=False,  # the client reads the last answer
)
"""For one part of an upload: about two minutes."""
_ATTEMPTS = 3
"""A transfer may take longer than the deadline. It is tried at least so often."""


class S3Store:
    """Keys as objects of one bucket, which must exist.

    Requests with transient failures are retried with exponential backoff for `deadline_s` seconds,
    and at least twice, then raise `StoreError`.
    """

    def __init__(
        self,
        *,
        bucket: str,
        prefix: str,
        credentials: Provider,
        endpoint: str | None = None,
        region: str | None = None,
        deadline_s: float = 120.0,
        timeout_s: float = 60.0,
    ) -> None:
        host, secure = _host(endpoint)
        self._set_address(bucket, prefix)
        self._deadline_s = deadline_s
        timeout = urllib3.Timeout(connect=min(5.0, timeout_s), read=timeout_s)

        def client(pool: type[urllib3.PoolManager]) -> Minio:
            http = pool(timeout=timeout, retries=False, maxsize=8)
            try:
                return Minio(
                    host, credentials=credentials, secure=secure, region=region, http_client=http
                )
            except ValueError as error:
                raise StoreError(f"storage.endpoint: {host}: {error}") from error

        self._client = client(EnvironmentPool)
        self._put_once = client(_PutOncePool)

    def at(self, bucket: str, prefix: str) -> S3Store:
        """A store for another bucket and prefix that uses the same connections."""
        other = copy.copy(self)
        other._set_address(bucket, prefix)
        return other

    def _set_address(self, bucket: str, prefix: str) -> None:
        self.url = f"s3://{bucket}/{prefix}".rstrip("/")
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""

    def put(self, key: str, data: bytes) -> None:
        self._put(key, lambda: BytesIO(data), len(data))

    def put_file(self, key: str, path: Path) -> None:
        self._put(key, lambda: path.open("rb"), path.stat().st_size)

    def replace(self, key: str, data: bytes) -> None:
        self._request(key, lambda: self._send(self._client, key, BytesIO(data), len(data)))

    def get(self, key: str) -> bytes:
        return self._request(key, lambda: b"".join(self._chunks(key)))

    def get_start(self, key: str, size: int) -> bytes:
        return self._request(key, lambda: b"".join(self._chunks(key, size)))

    def get_file(self, key: str, path: Path) -> None:
        def copy() -> None:
            with path.open("wb") as file:
                file.writelines(self._chunks(key))

        self._request(key, copy)

    def exists(self, key: str) -> bool:
        return self._size(key) is not None

    def list(self, prefix: str) -> Iterator[str]:
        def names() -> list[str]:
            found = self._client.list_objects(
                self._bucket, prefix=self._prefix + prefix, recursive=True
            )
            keys = (str(item.object_name).removeprefix(self._prefix) for item in found)
            return sorted(key for key in keys if is_key(key))

        return iter(self._request(prefix, names))

    def delete(self, key: str) -> None:
        name = self._name(key)
        self._request(key, lambda: self._client.remove_object(self._bucket, name))

    def delete_many(self, keys: Sequence[str]) -> None:
        """As in `Store`. A service that does not have the request for many keys, or refuses it, is
        asked for each key."""
        by_name = {self._name(key): key for key in keys}

        def remove() -> list[str]:
            """Delete all objects. Returns the keys of those that the service refuses to delete."""
            objects = [DeleteObject(name) for name in by_name]
            try:
                errors = list(self._client.remove_objects(self._bucket, objects))
            except (S3Error, ParseError) as error:
                if _is_transient(error):
                    raise
                return list(keys)
            if any(error.code in _TRANSIENT_OF_ONE for error in errors):
                raise ServerError("the service did not delete all of several objects", 503)
            if any(error.name not in by_name for error in errors):  # one of the whole answer
                return list(keys)
            return [by_name[str(error.name)] for error in errors]

        if keys:
            for key in self._request(keys[0], remove):
                self.delete(key)

    def _name(self, key: str) -> str:
        return self._prefix + valid_key(key)

    def _put(self, key: str, source: Callable[[], BinaryIO], length: int) -> None:
        def send() -> bool:
            with source() as file:
                try:
                    self._send(self._put_once, key, file, length)
                except S3Error as error:
                    if error.code in _EXISTS:
                        return False
                    raise
            return True

        while self._size(key) is not None or not self._request(key, send):
            same = self._request(key, lambda: self._same(key, source))
            if same is False:
                raise conflict_error(key, self.url)
            if same:
                return
            # another process deleted the key in the meantime

    def _send(self, client: Minio, key: str, file: BinaryIO, length: int) -> None:
        """Upload an object, in parts if it is large. Raises `ServerError` if the parts were not
        joined: a service may begin its answer with status 200 and find that out later. The client
        does not look at the error in that answer."""
        name = self._name(key)
        sent = client.put_object(self._bucket, name, file, length, part_size=_PART_SIZE)
        if length > _PART_SIZE and sent.etag is None:
            raise ServerError("the service did not join the parts of the upload", 500)

    def _size(self, key: str) -> int | None:
        name = self._name(key)

        def stat() -> int | None:
            try:
                return int(self._client.stat_object(self._bucket, name).size or 0)
            except S3Error as error:
                if error.code in _ABSENT:
                    return None
                raise

        return self._request(key, stat)

    def _same(self, key: str, source: Callable[[], BinaryIO]) -> bool | None:
        """Whether `key` has the same bytes as `source`. None: the key does not exist."""
        try:
            with source() as file:
                same = all(chunk == file.read(len(chunk)) for chunk in self._chunks(key))
                return same and not file.read(1)
        except S3Error as error:
            if error.code in _ABSENT:
                return None
            raise

    def _chunks(self, key: str, size: int = 0) -> Iterator[bytes]:
        """The bytes of `key`; with `size`, the first ones."""
        response = self._client.get_object(self._bucket, self._name(key), length=size)
        try:
            yield from response.stream(_CHUNK)
        finally:
            response.close()
            response.release_conn()

    def _request(self, key: str, request: Callable[[], T]) -> T:
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_is_transient),
            stop=tenacity.stop_all(
                tenacity.stop_after_delay(self._deadline_s), tenacity.stop_after_attempt(_ATTEMPTS)
            ),
            wait=tenacity.wait_random_exponential(multiplier=0.2, max=10.0),
            reraise=True,
        )
        try:
            return retrying(request)
        except S3Error as error:
            if error.code in _ABSENT:
                raise absent_error(key, self.url) from error
            raise StoreError(f"{key}: in {self.url}: {error.code}: {error.message}") from error
        # ValueError: the client rejects the bucket or the object name.
        except (MinioException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise StoreError(f"{key}: in {self.url}: {_reason(error)}") from error


class _PutOncePool(EnvironmentPool):
    """Adds `If-None-Match: *` to the requests that create an object: single puts and the last
    request of a multi-part upload. The S3 client has no argument for it.

    Parts of an upload are repeated here: the client would begin again with the first one."""

    def urlopen(  # type: ignore[override]
        self, method: str, url: str, redirect: bool = True, **kw: Any
    ) -> Any:
        query = parse_qs(urlsplit(url).query)
        upload = "uploadId" in query
        if method == "PUT" and "partNumber" in query:
            kw["retries"] = _PART_RETRIES
        if (method == "PUT" and not upload) or (method == "POST" and upload):
            kw["headers"] = {**dict(kw.get("headers") or {}), "If-None-Match": "*"}
        return super().urlopen(method, url, redirect=redirect, **kw)


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, S3Error):
        return error.code in _TRANSIENT or error.response.status in _TRANSIENT_STATUS
    return isinstance(
        error, ServerError | InvalidResponseError | urllib3.exceptions.HTTPError | ConnectionError
    )


def _reason(error: Exception) -> str:
    inner = getattr(error, "reason", None)
    return str(inner or error)


def _host(endpoint: str | None) -> tuple[str, bool]:
    """(host and port, whether TLS is enabled)."""
    if endpoint is None:
        return "s3.amazonaws.com", True
    if "://" not in endpoint:
        return endpoint, True
    parts = urlsplit(endpoint)
    return parts.netloc, parts.scheme == "https"
