"""The places a run can keep what must last, and how a manifest names them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from agentrl_components.spec.fields.storage import Storage
from agentrl_components.storage.directory import DirectoryStore
from agentrl_components.storage.memory import MemoryStore
from agentrl_components.storage.store import Store

__all__ = ["DirectoryStore", "MemoryStore", "open_store"]


def open_store(storage: Storage, default_folder: Path) -> Store:
    """The store that `storage` names; `default_folder` where it names none.

    Raises `StoreError` when the folder cannot be made or the credentials are not in the
    environment. An S3 service is first asked when the store is first used.
    """
    if storage.url is None:
        return DirectoryStore(default_folder)
    url = urlsplit(storage.url)
    if url.scheme == "file":
        return DirectoryStore(Path(unquote(url.path)))
    from agentrl_components.storage.s3 import MinioStore, credentials

    return MinioStore(
        bucket=url.netloc,
        prefix=url.path.strip("/"),
        endpoint=storage.endpoint,
        region=storage.region,
        credentials=credentials(storage.access_key_env, storage.secret_key_env),
    )
