"""What pods need for connections to services that have certificates of a private authority, or that
are behind a proxy: environment variables, and a volume with the certificates.

The variables are those that OpenSSL, Go, requests, httpx, aiohttp, urllib3 and boto3 read.
"""

from __future__ import annotations

from collections.abc import Collection

from agentrl_pipelines.platform.config import Platform

CA_FOLDER = "/etc/agentrl-ca"
"""Where pods mount the ConfigMap with certificates."""
CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "AWS_CA_BUNDLE")
"""Variables with the path of a file of trusted certificates."""


def outbound_variables(platform: Platform, own: Collection[str] = ()) -> list[tuple[str, str]]:
    """Environment variables, by name, of a pod whose manifest sets those in `own`. Variables for
    proxies are set in both cases, since libraries differ; one in `own` replaces both."""
    variables: list[tuple[str, str]] = []
    if platform.ca_bundle is not None:
        file = f"{CA_FOLDER}/{platform.ca_bundle.key}"
        variables += [(name, file) for name in CA_VARIABLES]
    proxy = platform.proxy
    if proxy.http or proxy.https:
        addresses = {
            "http_proxy": proxy.http,
            "https_proxy": proxy.https,
            "no_proxy": ",".join(proxy.no_proxy),
        }
        for name, value in addresses.items():
            variables += [(name, value), (name.upper(), value)] if value else []
    replaced = {name.lower() for name in own}
    return [(name, value) for name, value in variables if name.lower() not in replaced]
