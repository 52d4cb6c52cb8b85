"""Opens the object store of a manifest."""

from __future__ import annotations

from pathlib import Path

from agentrl_components.spec.addresses import file_path, s3_location
from agentrl_components.spec.fields.storage import Storage
from agentrl_components.storage.directory import DirectoryStore
from agentrl_components.storage.memory import MemoryStore
from agentrl_components.storage.store import Store

__all__ = ["DirectoryStore", "MemoryStore", "open_store"]


def open_store(storage: Storage, default_folder: Path) -> Store:
    """The store at `storage.url`, or a `DirectoryStore` in `default_folder` if it is None.

    Raises `StoreError` if the folder cannot be created or the credentials are not in the
    environment. An S3 service is not contacted before the first use of the store.
    """
    if storage.url is None:
        return DirectoryStore(default_folder)
    if storage.url.startswith("file://"):
        return DirectoryStore(file_path(storage.url))
    from agentrl_components.storage.s3.credentials import find_credentials
    from agentrl_components.storage.s3.store import S3Store

    location = s3_location(storage.url)
    return S3Store(
        bucket=location.bucket,
        prefix=location.prefix,
        endpoint=storage.endpoint,
        region=storage.region,
        credentials=find_credentials(
            storage.access_key_env, storage.secret_key_env, storage.region
        ),
    )
