"""Credentials of an object store: keys from the environment, or the identity of a pod.

A pod has an identity if its service account has a role of AWS IAM. Amazon EKS then sets environment
variables in the pod, and the pod exchanges the token of its service account for keys that expire:
by `AssumeRoleWithWebIdentity` of the Security Token Service ("IAM roles for service accounts"), or
at an agent on its node ("EKS Pod Identity").
"""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import urlsplit

import urllib3
from minio.credentials import IamAwsProvider, Provider, StaticProvider

from agentrl_components.errors import StoreError
from agentrl_components.storage.s3.pools import EnvironmentPool

ACCESS_KEY_ENV = "AWS_ACCESS_KEY_ID"
"""The variable of the access key, unless a manifest names another one."""
SESSION_TOKEN_ENV = "AWS_SESSION_TOKEN"
"""The token that belongs to the keys of `ACCESS_KEY_ENV` if they are temporary."""
TOKEN_FILE_ENV = "AWS_WEB_IDENTITY_TOKEN_FILE"
"""The file with the token of a pod with an IAM role for its service account."""
_IDENTITY_ENV = (
    TOKEN_FILE_ENV,
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
)
_STS_ENDPOINT_ENV = "AWS_ENDPOINT_URL_STS"
_REGION_ENV = "AWS_REGION"
_REGION = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_TIMEOUT = urllib3.Timeout(connect=5.0, read=20.0)
_ERROR_CODE = re.compile(rb"<Code>(\w{1,64})</Code>")


def find_credentials(access_key_env: str, secret_key_env: str, region: str | None) -> Provider:
    """The keys in the environment variables with these names. If neither is set and the process has
    an identity, the keys of its identity.

    Raises:
        StoreError: neither; with the names of the variables that are not set.
    """
    names = (access_key_env, secret_key_env)
    if not any(os.environ.get(name) for name in names) and has_identity():
        return identity_keys(region)
    return static_keys(*names)


def static_keys(access_key_env: str, secret_key_env: str) -> StaticProvider:
    """The keys in the environment variables with these names, and `SESSION_TOKEN_ENV` beside those
    of `ACCESS_KEY_ENV`.

    Raises:
        StoreError: a key is missing; with the names of the variables that are not set.
    """
    missing = [name for name in (access_key_env, secret_key_env) if not os.environ.get(name)]
    if missing:
        raise StoreError(
            f"storage: {' and '.join(missing)} not set in the environment; set it, or set"
            " storage.accessKeyEnv and storage.secretKeyEnv to the names of other variables"
        )
    token = os.environ.get(SESSION_TOKEN_ENV) if access_key_env == ACCESS_KEY_ENV else None
    return StaticProvider(os.environ[access_key_env], os.environ[secret_key_env], token or None)


def has_identity() -> bool:
    """Whether the environment says how this process obtains keys by its identity."""
    return any(os.environ.get(name) for name in _IDENTITY_ENV)


def identity_keys(region: str | None) -> Provider:
    """Keys that this process obtains by its identity, and renews before they expire. `region`: that
    of the Security Token Service, if `AWS_REGION` is not set. `AWS_ENDPOINT_URL_STS` is the address
    of another service, such as MinIO.

    Raises:
        StoreError: the process has no identity, or the region is not valid. It is part of the host
            name to which the token goes.
    """
    if not has_identity():
        raise StoreError(
            f"storage: {TOKEN_FILE_ENV} and {_IDENTITY_ENV[1]} are not set in the environment;"
            " give the service account of the pod a role, or name a Secret with keys"
        )
    region = os.environ.get(_REGION_ENV) or region
    if region and not _REGION.fullmatch(region):
        raise StoreError(
            f"storage: {region!r} is not a region of AWS; correct storage.region or {_REGION_ENV}"
        )
    by_token = bool(os.environ.get(TOKEN_FILE_ENV))
    return IamAwsProvider(
        # The agent on the node is called without TLS: a proxy would see the token of the pod.
        http_client=_IdentityPool(proxied=by_token, timeout=_TIMEOUT, retries=False),
        custom_endpoint=os.environ.get(_STS_ENDPOINT_ENV) if by_token else None,
        region=region,
    )


class _IdentityPool(EnvironmentPool):
    """Requests for keys. Their addresses contain the token of the pod, and the client of MinIO
    reports the address of a request that fails: errors are raised here, without it. The caller
    repeats what may succeed later."""

    def urlopen(  # type: ignore[override]
        self, method: str, url: str, redirect: bool = False, **kw: Any
    ) -> Any:
        response = super().urlopen(method, url, redirect=False, **kw)
        if response.status == 200:
            return response
        code = _ERROR_CODE.search(response.data)
        reason = f"{response.status} {code[1].decode() if code else ''}".rstrip()
        host = urlsplit(url).netloc
        if response.status >= 500 or response.status == 429:
            raise urllib3.exceptions.HTTPError(f"{host} gives no keys: {reason}")
        raise ValueError(
            f"{host} gives no keys to the identity of this process: {reason}; check the role of"
            " the pod's service account"
        )
