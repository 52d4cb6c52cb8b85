"""What pods need for connections to services that have certificates of a private authority, or that
are behind a proxy: environment variables, and a volume with the certificates.

The variables are those that OpenSSL, Go, requests, httpx, aiohttp, urllib3 and boto3 read.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentrl_components.spec.fields.pods import SecretVariable, Variable
from agentrl_pipelines.platform.config import Platform, Proxy

CA_FOLDER = "/etc/agentrl-ca"
"""Where pods mount the ConfigMap with certificates."""
CA_FILE_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "AWS_CA_BUNDLE")
"""Variables with the path of a file of trusted certificates."""
CA_FOLDER_VARIABLE = "SSL_CERT_DIR"
"""OpenSSL and Go also read a folder, by default that of the image."""


def pod_variables(
    platform: Platform, env: Sequence[Variable], secret_env: Sequence[SecretVariable] = ()
) -> list[tuple[str, str]]:
    """Environment variables of a pod whose manifest sets `env` and `secret_env`: those of `env`,
    and the platform's where the manifest sets none. Those for proxies have names in both cases,
    since libraries differ, and one of the manifest replaces both. To `no_proxy` in `env` the hosts
    of the platform are added: pods could not work without them."""
    joined = [one for one in env if one.name.lower() == "no_proxy" and _is_used(platform.proxy)]
    own = [(one.name, one.value) for one in env if one not in joined]
    replaced = {name.lower() for name, _ in own} | {one.name.lower() for one in secret_env}
    variables = _ca_variables(platform) + _proxy_variables(
        platform.proxy, [one.value for one in joined]
    )
    return [*((name, v) for name, v in variables if name.lower() not in replaced), *own]


def _ca_variables(platform: Platform) -> list[tuple[str, str]]:
    if platform.ca_bundle is None:
        return []
    file = f"{CA_FOLDER}/{platform.ca_bundle.key}"
    return [*((name, file) for name in CA_FILE_VARIABLES), (CA_FOLDER_VARIABLE, CA_FOLDER)]


def _proxy_variables(proxy: Proxy, excepted: Sequence[str]) -> list[tuple[str, str]]:
    """`excepted`: further values of `no_proxy`."""
    if not _is_used(proxy):
        return []
    values = {
        "http_proxy": proxy.http,
        "https_proxy": proxy.https,
        "no_proxy": ",".join([*excepted, *proxy.no_proxy]),
    }
    return [
        (cased, value) for name, value in values.items() if value for cased in (name, name.upper())
    ]


def _is_used(proxy: Proxy) -> bool:
    return proxy.http is not None or proxy.https is not None
