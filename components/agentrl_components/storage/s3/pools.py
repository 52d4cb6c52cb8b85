"""A connection pool that uses the proxy of the environment.

urllib3 reads no environment variables, while the other clients of a run do.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from urllib3 import PoolManager, ProxyManager, make_headers

from agentrl_components.errors import StoreError


class EnvironmentPool(PoolManager):
    """Sends each request directly or, with `proxied`, through the proxy for its host. `options` are
    those of `PoolManager`."""

    def __init__(self, *, proxied: bool = True, **options: Any) -> None:
        super().__init__(**options)
        self._proxied, self._options = proxied, options
        self._proxies: dict[str, ProxyManager] = {}

    def urlopen(  # type: ignore[override]
        self, method: str, url: str, redirect: bool = True, **kw: Any
    ) -> Any:
        """As that of `PoolManager`. Raises `StoreError` for a proxy that is not one of HTTP."""
        proxy = proxy_of(url) if self._proxied else None
        if proxy is None:
            return super().urlopen(method, url, redirect=redirect, **kw)
        if proxy not in self._proxies:
            self._proxies[proxy] = _manager(proxy, self._options)
        return self._proxies[proxy].urlopen(method, url, redirect=redirect, **kw)


def proxy_of(url: str) -> str | None:
    """The URL of the proxy for `url` by HTTP_PROXY, HTTPS_PROXY and NO_PROXY. None: no proxy.
    Raises `StoreError` for one that is not an HTTP proxy."""
    parts = urlsplit(url)
    proxy = getproxies_environment().get(parts.scheme)
    if not proxy or proxy_bypass(parts.netloc):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if urlsplit(proxy).scheme not in ("http", "https"):
        raise StoreError(
            f"{parts.scheme.upper()}_PROXY: is no http:// or https:// URL; use an HTTP proxy, or "
            f"add {parts.hostname} to NO_PROXY"
        )
    return proxy


def _manager(proxy: str, options: dict[str, Any]) -> ProxyManager:
    parts = urlsplit(proxy)
    headers = None
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers = make_headers(proxy_basic_auth=user)
    return ProxyManager(proxy, proxy_headers=headers, **options)
