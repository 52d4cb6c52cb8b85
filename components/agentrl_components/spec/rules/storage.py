"""Rules about the object store and the tracking server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from agentrl_components.spec.addresses import (
    HTTP_URL,
    INVALID_BUCKET,
    RELATIVE_PART,
    parsable,
)
from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.rule import Mistake, Rule, rule
from agentrl_envs.variables import OTHER_SERVICES, is_of_another_service

_ACCESS_KEYS = "^(AWS_ACCESS_KEY|MINIO_ACCESS_KEY|MINIO_ROOT_USER)"
"""Begin of the names of variables of well-known services that hold an access key."""

_HOST_AND_PORT = "^[A-Za-z0-9.-]+:[0-9]+(/.*)?$"
_CREDENTIALS = re.compile("[^/]*//[^/?#]*@")
_S3 = (
    "((has(self.storage.url) && self.storage.url.startsWith('s3://'))"
    " || self.model.source.startsWith('s3://')"
    " || (has(self.warmStart) && has(self.warmStart.trajectories)"
    " && self.warmStart.trajectories.startsWith('s3://')))"
)


def _s3_address(spec: RunSpec) -> str | None:
    """The first s3:// address in the manifest, or None."""
    trajectories = spec.warm_start.trajectories if spec.warm_start else None
    for address in (spec.storage.url, spec.model.source, trajectories):
        if address is not None and address.startswith("s3://"):
            return address
    return None


@rule(
    "storage.url",
    "storage.endpoint",
    "storage.region",
    "model.source",
    "warmStart",
    cel=f"!{_S3} || has(self.storage.endpoint) || has(self.storage.region)",
)
def s3_needs_endpoint_or_region(spec: RunSpec) -> Iterator[Mistake]:
    """s3:// addresses require storage.endpoint, or storage.region for AWS."""
    address = _s3_address(spec)
    if address and spec.storage.endpoint is None and spec.storage.region is None:
        yield Mistake(
            field="spec.storage.endpoint",
            reason=f"is missing: {address} needs an S3 service",
            fix="set it to host:port of an S3 service, or set spec.storage.region for AWS",
        )


@rule(
    "storage.url",
    "storage.endpoint",
    "storage.region",
    "model.source",
    "warmStart",
    cel=f"(!has(self.storage.endpoint) && !has(self.storage.region)) || {_S3}",
)
def endpoint_needs_s3(spec: RunSpec) -> Iterator[Mistake]:
    """storage.endpoint and storage.region require an s3:// address."""
    if _s3_address(spec):
        return
    for name in ("endpoint", "region"):
        if getattr(spec.storage, name) is not None:
            yield Mistake(
                field=f"spec.storage.{name}",
                reason="has no effect: this run has no s3:// address",
                fix="set spec.storage.url to s3://bucket/prefix, or leave it out",
            )


_ADDRESSES: tuple[tuple[str, Callable[[RunSpec], str | None]], ...] = (
    ("spec.storage.url", lambda spec: spec.storage.url),
    ("spec.model.source", lambda spec: spec.model.source),
    (
        "spec.warmStart.trajectories",
        lambda spec: spec.warm_start.trajectories if spec.warm_start else None,
    ),
)


@rule(
    "storage.url",
    "model.source",
    "warmStart",
    cel=f"(!has(self.storage.url) || !self.storage.url.matches(r'{INVALID_BUCKET}'))"
    f" && !self.model.source.matches(r'{INVALID_BUCKET}')"
    " && (!has(self.warmStart) || !has(self.warmStart.trajectories)"
    f" || !self.warmStart.trajectories.matches(r'{INVALID_BUCKET}'))",
)
def buckets_are_valid(spec: RunSpec) -> Iterator[Mistake]:
    """Bucket names in s3:// addresses may not contain adjacent dots or dashes, nor be IP
    addresses."""
    for field, address_of in _ADDRESSES:
        address = address_of(spec)
        if address and re.search(INVALID_BUCKET, address):
            yield Mistake(
                field=field,
                reason=f"{address} has an invalid bucket name",
                fix="use letters, digits, and single dots or dashes between them",
            )


@rule(
    "storage.url",
    "model.source",
    "warmStart",
    cel=f"(!has(self.storage.url) || !self.storage.url.matches(r'{RELATIVE_PART}'))"
    f" && !self.model.source.matches(r'{RELATIVE_PART}')"
    " && (!has(self.warmStart) || !has(self.warmStart.trajectories)"
    f" || !self.warmStart.trajectories.matches(r'{RELATIVE_PART}'))",
)
def keys_have_no_relative_parts(spec: RunSpec) -> Iterator[Mistake]:
    """Keys in s3:// addresses may have neither . nor .. as a part."""
    for field, address_of in _ADDRESSES:
        address = address_of(spec)
        if address and re.search(RELATIVE_PART, address):
            yield Mistake(
                field=field,
                reason=f"{address} has a part . or .. in its key",
                fix="write the address without it",
            )


@rule(
    "tracking.uri",
    cel="!has(self.tracking.uri) || !self.tracking.uri.matches(r'^[hH][tT][tT][pP][sS]?:')"
    f" || self.tracking.uri.matches(r'{HTTP_URL}')",
)
def tracking_uri_is_valid(spec: RunSpec) -> Iterator[Mistake]:
    """tracking.uri must have a valid host and port if it is an http:// or https:// URL."""
    uri = spec.tracking.uri
    if uri and re.match("https?:", uri, re.IGNORECASE):
        try:
            parsable(uri)
            valid = re.search(HTTP_URL, uri) is not None
        except ValueError:
            valid = False
        if not valid:
            yield Mistake(
                field="spec.tracking.uri",
                reason="is not a valid HTTP URL",
                fix="write one, such as http://host:5000",
            )


@rule(
    "storage.endpoint",
    "tracking.uri",
    cel="(!has(self.storage.endpoint) || !self.storage.endpoint.contains('@'))"
    " && (!has(self.tracking.uri) || !self.tracking.uri.matches('^[^/]*//[^/?#]*@'))",
)
def services_have_no_credentials(spec: RunSpec) -> Iterator[Mistake]:
    """storage.endpoint and tracking.uri may not contain a user or a password."""
    if spec.storage.endpoint and "@" in spec.storage.endpoint:
        yield Mistake(
            field="spec.storage.endpoint",
            reason="contains a user or a password, and a manifest must not contain secrets",
            fix="put the keys in the environment variables named by accessKeyEnv and secretKeyEnv",
        )
    if spec.tracking.uri and _CREDENTIALS.match(spec.tracking.uri):
        yield Mistake(
            field="spec.tracking.uri",
            reason="contains a user or a password, and a manifest must not contain secrets",
            fix="set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD in the environment",
        )


@rule(
    "tracking.uri",
    cel=f"!has(self.tracking.uri) || !self.tracking.uri.matches(r'{_HOST_AND_PORT}')",
)
def tracking_uri_has_a_scheme(spec: RunSpec) -> Iterator[Mistake]:
    """tracking.uri needs a scheme before a host and a port."""
    uri = spec.tracking.uri
    if uri and re.search(_HOST_AND_PORT, uri):
        yield Mistake(
            field="spec.tracking.uri",
            reason=f"{uri} has no scheme",
            fix=f"did you mean http://{uri}?",
        )


@rule(
    "storage.accessKeyEnv",
    cel=f"!self.storage.accessKeyEnv.matches('{OTHER_SERVICES}')"
    f" || self.storage.accessKeyEnv.matches('{_ACCESS_KEYS}')",
)
def access_key_is_of_a_store(spec: RunSpec) -> Iterator[Mistake]:
    """storage.accessKeyEnv may not name a variable of another service, or a secret: the access key
    is sent to storage.endpoint as it is."""
    name = spec.storage.access_key_env
    if is_of_another_service(name) and not re.match(_ACCESS_KEYS, name):
        yield Mistake(
            field="spec.storage.accessKeyEnv",
            reason=f"{name} holds no access key, and is sent to the object store as it is",
            fix="name the variable of the access key, such as AWS_ACCESS_KEY_ID",
        )


RULES: tuple[Rule, ...] = (
    s3_needs_endpoint_or_region,
    endpoint_needs_s3,
    buckets_are_valid,
    keys_have_no_relative_parts,
    tracking_uri_is_valid,
    tracking_uri_has_a_scheme,
    services_have_no_credentials,
    access_key_is_of_a_store,
)
