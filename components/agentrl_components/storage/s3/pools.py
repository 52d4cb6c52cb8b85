"""Connection pools: direct, or through the proxy that the environment names for a host.

urllib3 reads no environment variables, while the other clients of a run do.
"""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from urllib3 import PoolManager, ProxyManager, make_headers

P = TypeVar("P", bound=PoolManager)


def open_pool(kind: type[P], url: str, **options: Any) -> P:
    """A pool of the class `kind` for requests to the host of `url`. `options` are those of
    `PoolManager`."""
    proxy = proxy_of(url)
    if proxy is None:
        return kind(**options)
    bases = (ProxyManager,) if kind is PoolManager else (kind, ProxyManager)
    parts = urlsplit(proxy)
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        options["proxy_headers"] = make_headers(proxy_basic_auth=user)
    pool: P = type(kind.__name__, bases, {})(proxy_url=proxy, **options)
    return pool


def proxy_of(url: str) -> str | None:
    """The URL of the proxy for `url` by HTTP_PROXY, HTTPS_PROXY and NO_PROXY. None: no proxy."""
    parts = urlsplit(url)
    proxies = getproxies_environment()
    proxy = proxies.get(parts.scheme)
    if not proxy or proxy_bypass(parts.netloc, proxies):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"
