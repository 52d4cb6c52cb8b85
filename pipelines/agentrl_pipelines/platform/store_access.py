"""Which object stores runs may use on a platform, and with which credentials.

A run names its store, and whoever may create a run may name any host. Credentials of the platform
are therefore sent to the platform's own service only, and the services of `storage.others` have
credentials of their own. The operator sends requests to no other service.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from agentrl_components.spec import Storage
from agentrl_pipelines.platform.config import ObjectStore, OtherStore, Platform

_AWS_REGION = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAccess:
    """How to reach the S3 service of a run. Address and credentials come from the platform's
    configuration, never from the run."""

    endpoint: str | None
    """As in `ObjectStore`."""
    region: str | None
    store: ObjectStore | OtherStore
    """The entry of the configuration that has the credentials."""


def folder_mistake(storage: Storage) -> str | None:
    """The mistake that a run on a cluster is to be stored in a folder. None: it is not."""
    if storage.url is None or storage.url.startswith("s3://"):
        return None
    return "spec.storage.url: pods do not share a folder; use an s3:// URL, or omit the field"


def store_access(storage: Storage, platform: Platform) -> StoreAccess | None:
    """The access to the service of a run's store. `storage` with no `url` is in the platform's
    store, and may name no other service. None: the platform's configuration does not list the
    service."""
    stores: tuple[ObjectStore | OtherStore, ...] = (platform.storage, *platform.storage.others)
    wanted = _service(storage.endpoint)
    if storage.url is None:
        stores = stores[:1]
        wanted = _service(storage.endpoint or platform.storage.endpoint)
    if wanted is None:
        return None
    found = next((one for one in stores if _service(one.endpoint) == wanted), None)
    if found is None:
        return None
    region = storage.region or found.region
    # Without an endpoint the region is part of the host name.
    if found.endpoint is None and region is not None and not _AWS_REGION.fullmatch(region):
        return None
    return StoreAccess(endpoint=found.endpoint, region=region, store=found)


def _service(endpoint: str | None) -> tuple[str, str, int] | None:
    """(scheme, host, port) of an S3 endpoint, with empty values for AWS; None for an endpoint that
    is not just a host with an optional scheme and port."""
    if endpoint is None:
        return "", "", 0
    try:
        parts = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        return None
    if parts.path.strip("/") or parts.query or parts.fragment:
        return None
    return parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80)
