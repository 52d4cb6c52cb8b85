"""Rules about the object store and the tracking server."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.rule import Mistake, Rule, rule

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
    if spec.tracking.uri and "@" in urlsplit(spec.tracking.uri).netloc:
        yield Mistake(
            field="spec.tracking.uri",
            reason="contains a user or a password, and a manifest must not contain secrets",
            fix="set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD in the environment",
        )


RULES: tuple[Rule, ...] = (
    s3_needs_endpoint_or_region,
    endpoint_needs_s3,
    services_have_no_credentials,
)
